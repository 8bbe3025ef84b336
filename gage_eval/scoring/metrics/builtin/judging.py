"""Metrics on a judge's output."""

import math

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.filters.extract import rating


@metric("judge_threshold", value="score", aggregate="mean", binary=True, version=2)
def judge_threshold(judge: JsonValue, *, threshold: float = 0.5) -> Score:
    """1 when the judge's score is at least ``threshold``, else 0.

    A score may be a number, a number as text, or true and false. Anything else is not a verdict: the row is
    unscored, because a judge's failure is not the model's fault.
    """
    score = _number(judge)
    return _no_number(judge) if score is None else Score(float(score >= threshold))


@metric("judge_score", value="score", aggregate="mean", bounds=(None, None), version=1)
def judge_score(judge: JsonValue) -> Score:
    """The judge's score, on the scale that the judge uses.

    A score is read as by `judge_threshold`; true is 1 and false is 0. The row is unscored without one.
    """
    score = _number(judge)
    return _no_number(judge) if score is None else Score(score)


@metric("judge_share", value="score", aggregate="mean", bounds=(0, 1), version=1)
def judge_share(judge: JsonValue) -> Score:
    """The judge's score where it is a share from 0 to 1, of statements that are supported for example.

    A score is read as by `judge_threshold`. Without one, or with one outside 0..1, the row is unscored.
    """
    score = _number(judge)
    if score is not None and not 0 <= score <= 1:
        return Score.unscored(f"the judge's score {score:g} is not a share", reason="no_verdict")
    return _no_number(judge) if score is None else Score(score)


@metric(
    "judge_rating",
    value="rating",
    aggregate="mean",
    bounds=(None, None),
    version=2,
    fields={"text": "judge_output.text"},
    set_by={"text": "target_field"},
)
def judge_rating(text: str) -> Score:
    """The judge's ``[[n]]``, as MT-bench reads it (filter ``rating``); unscored without one."""
    rated = rating(text)
    return (
        Score.unscored("the judge gave no rating", reason="no_verdict")
        if rated is None
        else Score(float(rated), extracted=rated)
    )


def _number(judge: JsonValue) -> float | None:
    try:
        score = float(judge) if isinstance(judge, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return score if math.isfinite(score) else None


def _no_number(judge: JsonValue) -> Score:
    return Score.unscored(f"the judge's score {str(judge)[:80]!r} is not a number", reason="no_verdict")
