"""The simple regression check: two cards and a tolerance (`mode: tolerance` of a gate).

It knows no uncertainty; a gate on paired samples does, and is the one to prefer.
"""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from gage_eval.base.errors import InputError
from gage_eval.scoring.scorecards.card import ScoreCard


class RegressionResult(BaseModel):
    """How a primary score moved."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    baseline_score: float = Field(description="Primary score of the baseline.")
    current_score: float = Field(description="Primary score now.")
    delta: float = Field(description="current − baseline, rounded to six decimals.")
    regressed: bool = Field(description="Whether it got worse by more than the tolerance.")
    details: str = Field(description="OK, or what got worse by how much.")


def loses_more_than(tolerance: float, difference: float) -> bool:
    """The rule: whether a difference, positive where the current score is better, is a loss above the tolerance."""
    # Rounded first: 0.78 − 0.80 is not more than 0.02 below.
    return round(difference, 6) < -tolerance


def check_regression(current: ScoreCard, baseline: ScoreCard, tolerance: float = 0.02) -> RegressionResult:
    """Whether the primary score got worse by more than the tolerance: fell, or rose where less is better.

    Args:
        current, baseline: cards of one task.
        tolerance: by how much it may get worse, 0 or more.

    Raises:
        InputError: the cards have no score, different primary metrics, or the tolerance is not a number from 0 up.
    """
    if not tolerance >= 0:
        raise InputError(f"tolerance {tolerance}: it must be 0 or more.")
    if current.primary_metric != baseline.primary_metric:
        raise InputError(
            f"the cards cannot be compared: one's primary metric is '{current.primary_metric}', the other's "
            f"'{baseline.primary_metric}'."
        )
    now, before = current.primary_score, baseline.primary_score
    if now is None or before is None:
        missing = "current" if now is None else "baseline"
        raise InputError(f"the {missing} card has no score for '{current.primary_metric}', so nothing can be compared.")
    delta = round(now - before, 6)
    regressed = loses_more_than(tolerance, delta if current.higher_is_better else -delta)
    moved = "dropped" if current.higher_is_better else "rose"
    details = (
        f"REGRESSION: {current.primary_metric} {moved} by {abs(delta):.4f} (tolerance={tolerance})"
        if regressed
        else "OK"
    )
    return RegressionResult(baseline_score=before, current_score=now, delta=delta, regressed=regressed, details=details)
