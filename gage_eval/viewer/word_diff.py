"""The words in which two answers differ."""

import re
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MOST_WORDS = 6_000
"""Longer answers are not compared word by word."""

_WORD = re.compile(r"\s*\S+|\s+$")


class Piece(NamedTuple):
    """Words that both answers have (``same``), or only this one (``new``), or only the other one (``gone``)."""

    kind: Literal["same", "new", "gone"]
    text: str


def word_diff(other: str, this: str) -> list[Piece]:
    """This answer, with the words that the other one does not have, and those that only the other one has.

    Empty where an answer is too long to compare.
    """
    before, after = _WORD.findall(other), _WORD.findall(this)
    if max(len(before), len(after)) > MOST_WORDS:
        return []
    pieces: list[Piece] = []
    # Without spaces, so that a line break does not make a word another one.
    matcher = SequenceMatcher(None, [word.strip() for word in before], [word.strip() for word in after], autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(after[j1:j2])))
            continue
        if i2 > i1:
            pieces.append(Piece("gone", "".join(before[i1:i2])))
        if j2 > j1:
            pieces.append(Piece("new", "".join(after[j1:j2])))
    return pieces
