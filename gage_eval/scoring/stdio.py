"""Compare what a program printed with what it should have printed."""

from decimal import Decimal, InvalidOperation


def same_output(actual: str, expected: str) -> bool:
    """Whether an output is right: equal line by line, or as decimals where lines differ.

    White space around the output and around each line does not count. Lines that differ are split at white space, and
    equal where all their parts are numbers of equal value. Source: LiveCodeBench, ``testing_util.py``, ``grade_stdio``.
    """
    left, right = _lines(actual), _lines(expected)
    if len(left) != len(right):
        return False
    return all(mine == theirs or _same_numbers(mine, theirs) for mine, theirs in zip(left, right, strict=True))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_numbers(left: str, right: str) -> bool:
    numbers = _numbers(left)
    return numbers is not None and numbers == _numbers(right)


def _numbers(line: str) -> list[Decimal] | None:
    """The numbers of a line; None if a part of it is none."""
    try:
        return [Decimal(part) for part in line.split()]
    except InvalidOperation:
        return None
