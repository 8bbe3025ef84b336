"""Match texts and numbers as the scorers of Inspect AI do (their vectors are tests)."""

import math
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from gage_eval.extract import patterns
from gage_eval.extract.patterns import PatternText
from gage_eval.metrics.base import Score, metric

_EDGES = string.whitespace + string.punctuation
_DECORATION = re.compile(r"[$,£€*_]|\.(?!\d)")
_BRACKETS = "!?:;()[]{}'\"`"
_FRACTIONS = {
    "½": 1 / 2, "⅓": 1 / 3, "⅔": 2 / 3, "¼": 1 / 4, "¾": 3 / 4, "⅕": 1 / 5, "⅖": 2 / 5, "⅗": 3 / 5, "⅘": 4 / 5,
    "⅙": 1 / 6, "⅚": 5 / 6, "⅐": 1 / 7, "⅛": 1 / 8, "⅜": 3 / 8, "⅝": 5 / 8, "⅞": 7 / 8, "⅑": 1 / 9, "⅒": 1 / 10,
}  # fmt: skip
_MIXED = re.compile(rf"([-+]?)(\d{{0,15}}(?:\.\d{{1,15}})?)([{''.join(_FRACTIONS)}]?)([⁰¹²³⁴⁵⁶⁷⁸⁹]{{0,2}})")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


@metric("match", value="score", aggregate="mean", binary=True, version=1)
def match(
    prediction: str,
    answers: Sequence[str],
    *,
    location: Literal["begin", "end", "any", "exact"] = "end",
    ignore_case: bool = True,
    numbers: Literal["text", "five_digits"] = "text",
) -> Score:
    """1 when the answer begins with, ends with, contains or is one of the references, else 0 (Inspect AI's ``match``).

    White space and punctuation at both ends do not count. ``numbers: five_digits`` is Inspect's ``numeric=True``, kept
    for comparison with its results: where the reference is a number, the first (``begin``), last (``end``) or any
    number that stands between spaces is compared to five significant digits, so that 180001 passes for 180000.
    `numeric_match` is exact.
    """
    extracted: str | None = None
    for target in answers:
        extracted, right = _matches(prediction, target, location, ignore_case, numbers == "five_digits")
        if right:
            return Score(1.0, extracted=extracted)
    return Score(0.0, extracted=extracted)


@metric("pattern", value="score", aggregate="mean", binary=True, version=1)
def pattern(
    prediction: str,
    answers: Sequence[str],
    *,
    pattern: PatternText,
    ignore_case: bool = True,
    match_all: bool = False,
) -> Score:
    """1 when a group of the pattern's first match is one of the references, else 0 (Inspect AI's ``pattern``).

    A pattern without groups counts as one group. With ``match_all`` every group that took part must be one. An answer
    without a match is unparsed.
    """
    hit = patterns.search(pattern, prediction, ignore_case=ignore_case)
    if hit is None:
        return Score.unparsed("the pattern is not found")
    groups = [group for group in (hit.groups() or (hit[0],)) if group is not None]
    wanted = {target.lower() for target in answers} if ignore_case else set(answers)
    found = [group for group in groups if (group.lower() if ignore_case else group) in wanted]
    right = len(found) == len(groups) if match_all else bool(found)
    shown = next(iter(found), None) or next(iter(groups), None)
    return Score(float(right), extracted=shown)


def _matches(text: str, target: str, location: str, ignore_case: bool, numeric: bool) -> tuple[str, bool]:
    value, wanted = text.strip(), target.strip()
    answer = value
    if ignore_case:
        value, wanted = value.casefold(), wanted.casefold()
    if numeric:
        number = _number(_DECORATION.sub("", wanted))
        if number is not None:
            return _matches_number(answer, _DECORATION.sub("", value), f"{number:.5g}", location)
        wanted = _DECORATION.sub("", wanted)
    value, wanted = value.strip(_EDGES), wanted.strip(_EDGES)
    if location == "begin":
        return answer, value.startswith(wanted)
    if location == "end":
        return answer, value.endswith(wanted)
    return answer, value == wanted if location == "exact" else wanted in value


def _matches_number(answer: str, value: str, wanted: str, location: str) -> tuple[str, bool]:
    if location == "exact":
        found = next(_numbers([value]), value)
        return found, found == wanted
    words = value.split()
    if location == "any":
        return (wanted, True) if wanted in _numbers(words) else (answer, False)
    found = next(_numbers(words if location == "begin" else reversed(words)), "")
    return found, found == wanted


def _numbers(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        number = _number(word)
        if number is None:
            number = _number(word.strip(_BRACKETS))
        if number is not None:
            yield f"{number:.5g}"


def _number(word: str) -> float | None:
    """A word as a finite number: in Python's float syntax, with ``−``, or as in 2½ and 5²."""
    if not word or len(word) > 400:
        return None
    word = word.replace("−", "-")
    try:
        value = float(word)
    except ValueError:
        mixed = _MIXED.fullmatch(word)
        if mixed is None or not (mixed[2] or mixed[3]):
            return None
        value = (float(mixed[2] or 0) + _FRACTIONS.get(mixed[3], 0.0)) ** int(mixed[4].translate(_RAISED) or 1)
        value = -value if mixed[1] == "-" else value
    return value if math.isfinite(value) else None
