"""Values as data: nothing of the answer's types, methods or comparisons reaches the harness.

JSON has the plain values; others are objects with one key that names their type. What is not data is a *handle*, which
the tests can only pass back.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

DEEPEST = 200
MOST_ITEMS = 100_000
"""Of an iterator, which may have no end."""
_LARGEST_INTEGER = 2**53


def dump(value: Any, to_handle: Callable[[Any], int], depth: int = 0) -> Any:
    """The JSON value of a value. Subclasses become their base: a Counter is a dict, a named tuple a tuple.

    Raises:
        ValueError: it is nested more than `DEEPEST` times.
    """
    if value is None or value is True or value is False or type(value) is str:
        return value
    if depth > DEEPEST:
        raise ValueError(f"the value is nested more than {DEEPEST} times")

    def inner(items: Any) -> list[Any]:
        return [dump(item, to_handle, depth + 1) for item in items]

    kind = type(value)
    if isinstance(value, int):
        number = int(value)
        return number if -_LARGEST_INTEGER < number < _LARGEST_INTEGER else {"int": hex(number)}
    if isinstance(value, float):
        real = float(value)
        return real if math.isfinite(real) else {"float": repr(real)}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, complex):
        return {"complex": inner((value.real, value.imag))}
    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, list):
        return inner(value)
    if isinstance(value, dict):
        return {"dict": [inner(pair) for pair in value.items()]}
    for name, base in (("tuple", tuple), ("set", set), ("frozenset", frozenset)):
        if isinstance(value, base):
            return {name: inner(value)}
    if kind is range:
        return {"range": [value.start, value.stop, value.step]}
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return dump(value.tolist(), to_handle, depth + 1)
    if hasattr(kind, "__next__"):
        return {"iterator": inner(itertools.islice(value, MOST_ITEMS))}
    return {"handle": to_handle(value)}


def load(value: Any, from_handle: Callable[[int], Any]) -> Any:
    """The value of a JSON value, of exact built-in types.

    Raises:
        ValueError, TypeError, KeyError: `dump` does not write such a value.
    """
    if type(value) is list:
        return [load(item, from_handle) for item in value]
    if type(value) is not dict:
        return value
    ((kind, inner),) = value.items()
    if kind == "dict":
        return {load(key, from_handle): load(item, from_handle) for key, item in inner}
    if kind == "handle":
        return from_handle(inner)
    if kind == "int":
        return int(inner, 16)
    return _MAKERS[kind](load(inner, from_handle))


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "complex": lambda parts: complex(*parts),
    "bytes": bytes.fromhex,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "range": lambda parts: range(*parts),
    "iterator": iter,
}
