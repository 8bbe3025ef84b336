"""Normalise text for metrics."""

import re

from gage_eval.base.canonical import JsonValue, canonical_text

_SPACE = re.compile(r"\s+")


def as_text(value: JsonValue) -> str:
    """Any value as text: strings unchanged, numbers as Python writes them, lists and objects as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return canonical_text(value)
    return str(value)


def as_float(text: str) -> float | None:
    """The number that a text is, as Python's `float` reads it; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def lowered(value: JsonValue) -> JsonValue:
    """A text in lower case, for parameters that ignore case; other values unchanged."""
    return value.lower() if isinstance(value, str) else value


def normalise_text(
    text: str, *, case_sensitive: bool = False, strip: bool = True, collapse_whitespace: bool = False
) -> str:
    """Strip, optionally collapse runs of white space to one space, and lower unless case counts."""
    if collapse_whitespace:
        text = _SPACE.sub(" ", text)
    if strip:
        text = text.strip()
    return text if case_sensitive else text.lower()
