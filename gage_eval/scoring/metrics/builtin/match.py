"""Match texts and numbers as the scorers of Inspect AI do (their vectors are tests)."""

import re
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from gage_eval.base import patterns
from gage_eval.base.patterns import PatternText
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.written_numbers import written_number

_EDGES = string.whitespace + string.punctuation
_DECORATION = re.compile(r"\\?[$,£€*_]")
_POINT = re.compile(r"\.(?!\d)")
_AROUND_NUMBERS = "!?:;()[]{}'\"`"


@metric("match", binary=True, version=2, all_references="each")
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
    number that stands between spaces is compared to five significant digits, so that 180001 passes for 180000. With
    ``exact`` the whole answer must be that number, without brackets. Numbers are read by
    `gage_eval.scoring.metrics.written_numbers.written_number`. `numeric_match` compares whole numbers exactly.
    """
    extracted: str | None = None
    for target in answers:
        extracted, right = _matches(prediction, target, location, ignore_case, numbers == "five_digits")
        if right:
            return Score(1.0, extracted=extracted)
    return Score(0.0, extracted=extracted)


@metric("pattern", binary=True, version=1)
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
    matches = [group for group in groups if (group.lower() if ignore_case else group) in wanted]
    right = len(matches) == len(groups) if match_all else bool(matches)
    shown = next(iter(matches), None) or next(iter(groups), None)
    return Score(float(right), extracted=shown)


def _matches(text: str, target: str, location: str, ignore_case: bool, numeric: bool) -> tuple[str, bool]:
    value, wanted = text.strip(), target.strip()
    answer = value
    if ignore_case:
        value, wanted = value.casefold(), wanted.casefold()
    if numeric:
        wanted = _undecorated(wanted)
        if (number := _number(wanted)) is not None:
            return _matches_number(answer, _undecorated(value), number, location)
    value, wanted = value.strip(_EDGES), wanted.strip(_EDGES)
    if location == "begin":
        return answer, value.startswith(wanted)
    if location == "end":
        return answer, value.endswith(wanted)
    return answer, value == wanted if location == "exact" else wanted in value


def _matches_number(answer: str, value: str, wanted: str, location: str) -> tuple[str, bool]:
    if location == "exact":
        whole = written_number(value)
        number = value if whole is None else _five_digits(whole)
        return number, number == wanted
    words = value.split()
    if location == "any":
        return (wanted, True) if wanted in _numbers(words) else (answer, False)
    number = next(_numbers(words if location == "begin" else reversed(words)), "")
    return number, number == wanted


def _undecorated(text: str) -> str:
    return _POINT.sub("", _DECORATION.sub("", text))


def _numbers(words: Iterable[str]) -> Iterator[str]:
    return (number for word in words if (number := _number(word)) is not None)


def _number(word: str) -> str | None:
    value = written_number(word.strip(_AROUND_NUMBERS))
    return None if value is None else _five_digits(value)


def _five_digits(value: float) -> str:
    return f"{value:.5g}"
