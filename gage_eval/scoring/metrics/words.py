"""Bags of words and their overlap."""

import re
import string
from collections import Counter
from collections.abc import Collection

from gage_eval.scoring.metrics.text_utils import as_float

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = frozenset({"a", "an", "the"})
_ARTICLES = re.compile(rf"\b(?:{'|'.join(sorted(_ARTICLE))})\b")
_NO_FINITE_NUMBERS = frozenset({"nan", "inf", "infinity"})
_BETWEEN = re.compile(r"[ -]")


def squad_normalised(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single spaces (SQuAD v1.1's ``normalize_answer``)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def drop_words(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """The words of a text as in DROP's script: split at spaces and hyphens, then each word cleaned.

    Case is folded, articles and punctuation are removed, and a number becomes its `float` value: ``1,000`` is 1000.0.
    """
    left_out = {_cleaned(word) for word in stop_words}
    parts = _BETWEEN.split(text)
    cleaned = {part: _cleaned(part) for part in set(parts)}
    return " ".join([word for part in parts if (word := cleaned[part]) not in left_out]).split()


def f1(predicted: "Counter[str]", wanted: "Counter[str]") -> float:
    """Harmonic mean of precision and recall of a bag of words; 0 when nothing is shared."""
    shared = sum(min(count, wanted.get(word, 0)) for word, count in predicted.items())
    if not shared:
        return 0.0
    precision, recall = shared / predicted.total(), shared / wanted.total()
    return 2 * precision * recall / (precision + recall)


def _cleaned(word: str) -> str:
    word = word.casefold()
    bare = word.translate(_NO_PUNCTUATION)
    if bare.isalpha() and bare not in _NO_FINITE_NUMBERS:
        # Most words are not numbers and hold no article, so most of the work is skipped.
        return "" if bare in _ARTICLE else bare
    number = as_float(word)
    if number is None:
        number = as_float(bare)
    return " ".join(_ARTICLES.sub(" ", bare).split()) if number is None else str(number)
