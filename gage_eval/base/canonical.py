"""Canonical JSON and its hash, used by every key, digest and open object.

Canonical form: keys sorted by code point, no white space, UTF-8. ``1.0`` and ``1`` are the same number (an
integral float below 2**53 is written as an integer), ``-0.0`` is ``0``, integers of any size are kept.
NaN, infinities, lone surrogates and keys that are not strings have no canonical form and raise
`ValueError`. Duplicate keys of a JSON text are settled where it is parsed: the last one counts, as in
every common parser.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson

JsonValue: TypeAlias = Any

_EXACT_INT = 2**53


class TooDeep(ValueError):
    """JSON that is nested deeper than Python can follow."""


def normalise(value: JsonValue) -> JsonValue:
    """The value in canonical form: plain dicts, lists, strings, integers, floats, booleans and None.

    Raises:
        ValueError: NaN, an infinity, a key that is not a string, or a type JSON does not know.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} has no JSON form")
        return int(value) if value.is_integer() and abs(value) < _EXACT_INT else value
    if kind is dict or isinstance(value, Mapping):
        out = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"key {key!r} is not a string")
            out[key] = normalise(item)
        return out
    if kind is list or isinstance(value, list | tuple):
        return [normalise(item) for item in value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return normalise(float(value))
    raise ValueError(f"a {kind.__name__} has no JSON form")


def canonical_json(value: JsonValue) -> bytes:
    """Canonical JSON text of a value, UTF-8.

    Raises:
        ValueError: the value has no canonical form (see the module's text).
        TooDeep: a ValueError too.
    """
    try:
        return encode(normalise(value))
    except RecursionError:
        raise TooDeep("it is nested too deep") from None


def canonical_text(value: JsonValue) -> str:
    """`canonical_json` as a string, the form of open objects in table columns."""
    return canonical_json(value).decode()


def encode(normal: JsonValue) -> bytes:
    """JSON bytes of a value that is already normal (`normalise`): sorted keys, no white space.

    Raises:
        ValueError: it has no JSON form after all.
        TooDeep: a ValueError too.
    """
    try:
        return orjson.dumps(normal, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        # orjson stops at 64-bit integers and at lone surrogates; only the first has a canonical form.
        try:
            text = json.dumps(normal, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            return text.encode()
        except RecursionError:
            raise TooDeep("it is nested too deep") from None
        except UnicodeEncodeError as again:
            half = again.object[again.start]
            raise ValueError(f"a text has {half!r}, one half of a surrogate pair") from error
        except (TypeError, ValueError) as again:
            raise ValueError(f"no JSON form: {again}") from error


def decode(text: bytes | str) -> JsonValue:
    """The value of a JSON text. Integers of any size keep their value.

    Raises:
        ValueError: not JSON (NaN and Infinity included), or with a number that no value can hold, such as 1e999.
        TooDeep: a ValueError too, as texts of models and of strangers come here.
    """
    try:
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return _read_exactly(text)
        # orjson reads an integer beyond 64 bits as a float: only then can the text hold one.
        if _has_huge_float(value):
            return _read_exactly(text)
    except RecursionError:
        raise TooDeep("it is nested too deep") from None
    return value


def json_fault(error: ValueError) -> str:
    """Why a text is not JSON. The parser's line and column are left out: the text is one line of a larger file."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    what = error.msg[:1].lower() + error.msg[1:]
    return f"{what.removesuffix(' at')} at character {error.pos + 1:,}"


def digest(value: JsonValue) -> str:
    """sha256 (64 hex digits) of the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def given(**values: JsonValue) -> dict[str, JsonValue]:
    """The values that are not None, by name: a setting that is not used leaves a key as it was."""
    return {name: value for name, value in values.items() if value is not None}


def sha256_hex(data: bytes) -> str:
    """sha256 of bytes, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def _read_exactly(text: bytes | str) -> JsonValue:
    """Parse with Python's own parser, which is slower but knows long integers and lone surrogates."""
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"an integer of {len(text):,} digits is too long") from None


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")


def _has_huge_float(value: JsonValue) -> bool:
    kind = type(value)
    if kind is not dict and kind is not list:
        value = [value]
    # Called for every record: a call for each number would take as long as parsing it.
    for item in value.values() if kind is dict else value:
        kind = type(item)
        if kind is float:
            if abs(item) >= 2**63:
                return True
        elif (kind is dict or kind is list) and _has_huge_float(item):
            return True
    return False
