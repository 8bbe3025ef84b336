"""Text as metrics see it: normalised, without thinking."""

import re

from gage_eval.canonical import JsonValue, canonical_text

_SPACE = re.compile(r"\s+")


def as_text(value: JsonValue) -> str:
    """Any value as text: strings as they are, numbers as Python writes them, lists and objects as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return canonical_text(value)
    return str(value)


def lowered(value: JsonValue) -> JsonValue:
    """A text in lower case, for parameters that are written in any; anything else as it is."""
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


def strip_thinking(text: str, *, start: str = "<think>", end: str = "</think>") -> str | None:
    """The text behind the last end-of-thinking marker.

    Returns:
        The text as it is without markers; None when thinking was begun and never ended: there is no answer.
    """
    if end in text:
        text = text.rpartition(end)[2].lstrip()
    return None if start in text else text
