"""Bags of words and how much two of them share."""

import re
import string
from collections import Counter
from collections.abc import Collection

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_BETWEEN = re.compile(r"[ -]")


def squad_normalised(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single spaces (SQuAD v1.1's ``normalize_answer``)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def drop_words(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """The words of a text as DROP's script makes it: split at spaces and hyphens, then word by word cleaned.

    Case is folded, articles and punctuation go, and a number is what `float` makes of it: ``1,000`` is 1000.0.
    """
    left_out = {_cleaned(word) for word in stop_words}
    parts = _BETWEEN.split(text)
    cleaned = {part: _cleaned(part) for part in set(parts)}
    words = (cleaned[part] for part in parts)
    return [part for word in words if word not in left_out for part in word.split()]


def f1(predicted: "Counter[str]", wanted: "Counter[str]") -> float:
    """Harmonic mean of precision and recall of a bag of words; 0 when nothing is shared."""
    shared = (predicted & wanted).total()
    if not shared:
        return 0.0
    precision, recall = shared / predicted.total(), shared / wanted.total()
    return 2 * precision * recall / (precision + recall)


def _cleaned(word: str) -> str:
    word = word.casefold()
    if not _is_number(word):
        word = word.translate(_NO_PUNCTUATION)
    if _is_number(word):
        word = str(float(word))
    return " ".join(_ARTICLES.sub(" ", word).split())


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
