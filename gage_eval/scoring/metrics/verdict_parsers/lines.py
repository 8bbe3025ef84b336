"""Parsers for judges that write lines such as ``SCORE: 8``, or two ratings on the first line."""

import math
import re
from typing import Annotated

from pydantic import Field

from gage_eval.scoring.extract.brackets import double_bracketed, pairwise_verdict
from gage_eval.scoring.metrics.verdicts import Verdict, verdict_parser

# Matched line by line: over a whole text their time would grow with the square of its length.
_ANSWER = re.compile(r"(?:CORRECT|ANSWER|VERDICT)\s*:\s*(.+)", re.IGNORECASE)
_SCORE = re.compile(r"(?:SCORE|RATING)\s*:\s*(-?\d{1,9}(?:\.\d{1,9})?)", re.IGNORECASE)

_TWO_RATINGS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?)(?:\s*,\s*|\s+)([0-9]{1,9}(?:\.[0-9]{0,9})?)")

_CRITERION = re.compile(r"(.{1,100}?)[\s*_]{0,9}:[\s*_]{0,9}(-?\d{1,9}(?:\.\d{1,9})?)(?:\s?/\s?\d{1,9})?")
_NUMBER = re.compile(r"\d{1,3}[.)][\s*_]{1,9}")


@verdict_parser("default", version=2)
def default(text: str) -> Verdict | None:
    """The last line ``CORRECT:``, ``ANSWER:`` or ``VERDICT:``, and the last line ``SCORE:`` or ``RATING:``.

    Without such a line, the marks of MT-bench: ``[[A]]``, ``[[B]]`` or ``[[C]]`` (a tie) is the answer, the first
    ``[[n]]`` the score.
    """
    lines = [line.strip() for line in text.splitlines()]
    answers = [match[1] for line in lines if (match := _ANSWER.fullmatch(line))]
    scores = [match[1] for line in lines if (match := _SCORE.fullmatch(line))]
    score = scores[-1] if scores else double_bracketed(text)
    number = math.nan if score is None else float(score)
    return Verdict(answers[-1] if answers else pairwise_verdict(text), number if math.isfinite(number) else None)


@verdict_parser("two_ratings", version=2)
def two_ratings(text: str) -> Verdict | None:
    """Two ratings alone on the first line, ``8 9`` or ``8, 9``: the answer is ``A``, ``B`` or ``tie`` (equal ratings).

    The form of FastChat's first pairwise reviews. The ratings are ``judge_output.rating_a`` and ``rating_b``.
    """
    match = _TWO_RATINGS.fullmatch(text.split("\n", 1)[0].strip())
    if match is None:
        return None
    first, second = float(match[1]), float(match[2])
    answer = "tie" if first == second else "A" if first > second else "B"
    return Verdict(answer, fields={"rating_a": first, "rating_b": second})


@verdict_parser("rubric", version=2)
def rubric(text: str, *, criteria: Annotated[list[str], Field(min_length=1)]) -> Verdict | None:
    """A score for each of several criteria, each on its own line such as ``clarity: 4``, ``**Clarity:** 4/5`` or
    ``1. Clarity: 4``.

    The scores are ``judge_output.NAME``, and ``judge_output.score`` is their mean. Of several lines the last counts. A
    text that lacks a criterion has no verdict.
    """
    lines = [line.strip(" \t*_#-.") for line in text.splitlines()]
    read = [match for line in lines if (match := _CRITERION.fullmatch(line))]
    # A criterion's own name may begin with a number, too.
    scores = {name.casefold(): float(match[2]) for match in read for name in (match[1], _NUMBER.sub("", match[1], 1))}
    lacking = [name for name in criteria if name.casefold() not in scores]
    if len(lacking) == len(criteria):
        return None
    named = {name: scores[name.casefold()] for name in criteria if name not in lacking}
    if lacking:
        return Verdict(fields=named, unread=f"the judge gave no score for {', '.join(lacking)}")
    return Verdict(score=math.fsum(named.values()) / len(named), fields=named)
