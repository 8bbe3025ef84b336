"""The words in which two answers differ."""

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from gage_eval.regression.first_token import equal_at_start

MOST_WORDS = 6_000
"""Longer answers are not compared word by word."""

# Pairs of equal words up to which every word counts. Beyond, frequent words alone make no match: a model that repeats
# itself would take minutes.
_MOST_PAIRS = 100_000
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
    # Without spaces, so that a line break does not make a word another one.
    a, b = [word.strip() for word in before], [word.strip() for word in after]
    start = equal_at_start(a, b)
    end = equal_at_start(a[start:][::-1], b[start:][::-1])
    pieces = [Piece("same", "".join(after[:start]))] if start else []
    inner_a, inner_b = a[start : len(a) - end], b[start : len(b) - end]
    counts = Counter(inner_a)
    is_long = sum(counts[word] * count for word, count in Counter(inner_b).items()) > _MOST_PAIRS
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, inner_a, inner_b, autojunk=is_long).get_opcodes():
        gone, new = "".join(before[start + i1 : start + i2]), "".join(after[start + j1 : start + j2])
        if kind == "equal":
            pieces.append(Piece("same", new))
            continue
        pieces += [Piece("gone", gone)] if gone else []
        pieces += [Piece("new", new)] if new else []
    return [*pieces, Piece("same", "".join(after[len(after) - end :]))] if end else pieces
