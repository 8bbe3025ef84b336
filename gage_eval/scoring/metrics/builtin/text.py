"""Metrics on plain text."""

import string
from collections.abc import Sequence
from typing import Literal

from gage_eval.base import patterns
from gage_eval.base.patterns import PatternText
from gage_eval.scoring.metrics.base import metric
from gage_eval.scoring.metrics.text_utils import normalise_text

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


@metric("exact_match", binary=True, version=2, normalized=True)
def exact_match(
    prediction: str,
    reference: str,
    *,
    case_sensitive: bool = False,
    strip_whitespace: bool = True,
    collapse_whitespace: bool = False,
    regexes_to_ignore: Sequence[PatternText] = (),
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> bool:
    """1 when answer and reference are the same text after stripping and lowering, else 0.

    ``regexes_to_ignore`` (in their order), then ASCII punctuation and digits where set, are deleted from both, as in
    the lm-eval harness, whose rule is this one with ``strip_whitespace: false``.
    """
    if regexes_to_ignore or ignore_punctuation or ignore_numbers:
        prediction, reference = (
            _without(text, regexes_to_ignore, ignore_punctuation, ignore_numbers) for text in (prediction, reference)
        )
    if strip_whitespace:
        prediction, reference = prediction.strip(), reference.strip()
    if prediction == reference:
        return True
    if case_sensitive and not collapse_whitespace:
        return False
    return normalise_text(
        prediction, case_sensitive=case_sensitive, strip=False, collapse_whitespace=collapse_whitespace
    ) == normalise_text(reference, case_sensitive=case_sensitive, strip=False, collapse_whitespace=collapse_whitespace)


@metric("contains", binary=True, version=1, normalized=True, all_references="each")
def contains(prediction: str, reference: str, *, case_sensitive: bool = False) -> bool:
    """1 when the reference occurs in the answer, white space collapsed and both lowered; an empty one never does."""
    wanted = normalise_text(reference, case_sensitive=case_sensitive, collapse_whitespace=True)
    if not wanted:
        return False
    return wanted in normalise_text(prediction, case_sensitive=case_sensitive, collapse_whitespace=True)


@metric("regex_match", binary=True, version=2, set_by={"text": "target_field"})
def regex_match(text: str, *, pattern: PatternText) -> bool:
    """1 when the pattern is found anywhere in the field, else 0.

    The syntax is that of the package `regex`, an extension of `re`. A pattern that takes longer than two seconds
    on an answer leaves the row unscored.
    """
    return patterns.search(pattern, text) is not None


@metric(
    "text_length", value="length", higher_is_better=None, bounds=(0, None), version=1, set_by={"text": "target_field"}
)
def text_length(text: str, *, unit: Literal["char", "word"] = "char") -> int:
    """Length of the field in characters (code points) or in words separated by white space."""
    return len(text.split()) if unit == "word" else len(text)


def _without(text: str, regexes: Sequence[str], punctuation: bool, digits: bool) -> str:
    for pattern in regexes:
        text = patterns.remove(pattern, text)
    if punctuation:
        text = text.translate(_NO_PUNCTUATION)
    return text.translate(_NO_DIGITS) if digits else text
