"""Compare an answer with the reference solution, by evalplus' rules. The text of this file is part of the tests."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

_SETS = (
    *("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly"),
    *("larg_nnum", "intersection_array", "find_dissimilar", "Diff"),
)
_NOT_NONE = ("check_str", "text_match_three", "text_starta_endb")
_RELATIVE = 1e-7
_LEAST = 1e-6


class AgainstReference:
    """Calls the answer and compares with what the reference solution returns for equal arguments.

    Args:
        solution: source of the reference solution, which never leaves the process of the tests.
        entry: the function's name.
        answer: the answer's function.
        atol: absolute tolerance of floats; 0 for exact results.
        is_mbpp: whether the special rules of MBPP+ hold, else those of HumanEval+.
        expected: what the reference solution has returned, call by call (`ReferenceOutputs`). Without it, it is called.
    """

    def __init__(
        self,
        solution: str,
        entry: str,
        answer: Callable[..., Any],
        atol: float,
        is_mbpp: bool,
        expected: Sequence[Any] | None = None,
    ) -> None:
        if expected is None:
            scope: dict[str, Any] = {"__name__": "reference"}
            exec(compile(solution, "reference.py", "exec"), scope)  # noqa: S102
            self.reference = scope[entry]
        else:
            values = iter(expected)
            self.reference = lambda *arguments: next(values)
        self.answer = answer
        self.entry, self.atol, self.is_mbpp = entry, atol, is_mbpp

    def __call__(self, *arguments: Any) -> None:
        """Call both once.

        Raises:
            AssertionError: the results differ.
        """
        if self.entry == "find_zero" and not self.is_mbpp:
            coefficients = copy.deepcopy(arguments[0])
            zero = self.answer(*arguments)
            value = sum(factor * math.pow(zero, power) for power, factor in enumerate(coefficients))
            assert abs(value) <= self.atol, f"the polynomial is {value} at {zero}"
            return
        expected = self.reference(*copy.deepcopy(arguments))
        shown = repr(arguments)[1:-1][:200]
        result = self.answer(*copy.deepcopy(arguments))
        if self.is_mbpp and self.entry in _NOT_NONE:
            expected = expected is not None
        if self.atol == 0 and _are_floats(expected):
            # It stays for the inputs that follow, as in evalplus.
            self.atol = _LEAST
        equal = self._is_equal(result, expected, arguments)
        assert equal, f"{self.entry}({shown}) is {expected!r:.200}, not {result!r:.200}"

    def _is_equal(self, result: Any, expected: Any, arguments: tuple[Any, ...]) -> bool:
        special = _special(self.entry, result, expected, arguments, self.atol) if self.is_mbpp else None
        if special or (special is None and result == expected):
            return True
        if self.atol == 0 or type(result) is not type(expected):
            return False
        return _are_close(result, expected, self.atol)


def _special(entry: str, result: Any, expected: Any, arguments: tuple[Any, ...], atol: float) -> bool | None:
    """Whether a result is right by the rule of its problem; None where there is no such rule."""
    if entry == "are_equivalent":
        return True
    if entry == "sum_div":
        return result in (expected, 0)
    if entry == "surface_Area":
        return bool(result == expected or abs(result - _pyramid_surface(*arguments)) <= atol)
    if entry == "digit_distance_nums":
        return result in (expected, _digit_distance(*arguments))
    if entry in _SETS:
        return set(result) == set(expected)
    if entry in _NOT_NONE:
        return bool(expected == (result if isinstance(result, bool) else result is not None))
    return None


def _pyramid_surface(base: float, height: float) -> int:
    """Of a square pyramid by its height; the reference takes the slant height."""
    return round(base**2 + 2 * base * math.sqrt((base / 2) ** 2 + height**2))


def _digit_distance(first: int, second: int) -> int:
    """Sum of the differences of digits, the shorter number filled with zeros."""
    width = max(len(str(first)), len(str(second)))
    return sum(abs(int(a) - int(b)) for a, b in zip(str(first).zfill(width), str(second).zfill(width), strict=True))


def _are_floats(value: Any) -> bool:
    return isinstance(value, float) or (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(item, float) for item in value)
    )


def _are_close(result: Any, expected: Any, atol: float) -> bool:
    if isinstance(expected, list | tuple) and isinstance(result, list | tuple):
        pairs = zip(result, expected, strict=False)
        return len(result) == len(expected) and all(_are_close(a, b, atol) for a, b in pairs)
    if not all(isinstance(value, int | float | complex) for value in (result, expected)):
        return False
    return bool(result == expected or abs(result - expected) <= atol + _RELATIVE * abs(expected))
