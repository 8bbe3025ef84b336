"""Find JSON in a model's text."""

import re

from gage_eval.base.canonical import JsonValue, decode

_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)```", re.DOTALL)
_LONGEST = 1_000_000
_MOST_TRIED = 100
_SIGN = re.compile(r'["{}\[\]]|\\.')
_CLOSES = {"{": "}", "[": "]"}


def read_json(text: str) -> JsonValue:
    """Parse a text that is only JSON.

    Raises:
        ValueError: it is not JSON, has more than a million characters, or is nested too deeply.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{len(text):,} characters are more than {_LONGEST:,}")
    return decode(text)


def find_json(text: str) -> tuple[JsonValue] | None:
    """Find the JSON in a text: the whole text, else its last fenced block, else its last object or list among words.

    Returns:
        The value in a tuple, since null is a value; None when there is none.
    """
    whole = _read(text.strip())
    if whole is not None:
        return whole
    fenced = [document for block in _FENCE.findall(text[-_LONGEST:]) if (document := _read(block)) is not None]
    return fenced[-1] if fenced else _among_words(text[-_LONGEST:])


def _read(text: str) -> tuple[JsonValue] | None:
    try:
        return (read_json(text),)
    except ValueError:
        return None


def _among_words(text: str) -> tuple[JsonValue] | None:
    """The last complete object or list; a nested one only where the outer one is not JSON."""
    for start, end in reversed(_spans(text)[-_MOST_TRIED:]):
        document = _read(text[start:end])
        if document is not None:
            return document
    return None


def _spans(text: str) -> list[tuple[int, int]]:
    """The spans of brackets, in the order of their ends; brackets in strings inside brackets do not count."""
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    quoted = False
    for sign in _SIGN.finditer(text):
        kind = sign[0]
        if kind == '"':
            quoted = bool(opened) and not quoted
        elif quoted or len(kind) > 1:
            continue
        elif kind in _CLOSES:
            opened.append(sign.start())
        elif opened and _CLOSES[text[(start := opened.pop())]] == kind:
            spans.append((start, sign.end()))
    return spans
