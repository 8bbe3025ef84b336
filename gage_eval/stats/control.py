"""The score of all rows of a benchmark, from a random part of them and an earlier run that has all: control variates.

What the earlier run scored on the rows that were not asked is known. So the mean of the part is corrected by how lucky
its rows were: the estimators are those of judges and labels (`gage_eval.stats.corrected`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gage_eval.stats.corrected import LEAST_CLUSTERS, Corrected, Stratum, corrected_clusters, corrected_mean
from gage_eval.stats.corrected import corrected_share as _corrected_share
from gage_eval.stats.intervals import Interval

LEAST_ROWS = 200
"""From fewer rows, intervals hold the truth too rarely where nearly all answers are right."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Controlled:
    """The mean of all rows.

    Attributes:
        estimate: of the mean.
        interval: at 95 %, of these rows alone, as if no others existed; None where it is unknown.
        gain: how many times the rows a mean without the earlier run would need; None where nothing varies.
    """

    estimate: float
    interval: Interval | None
    gain: float | None


def controlled_mean(
    scores: Sequence[float],
    baseline: Sequence[float],
    rest: Sequence[float],
    *,
    scale: tuple[float, float],
    clusters: Sequence[object] | None = None,
    rest_clusters: Sequence[object] | None = None,
) -> Controlled | None:
    """The mean of all rows from the scores of some that were drawn at random.

    0/1 scores with a 0/1 baseline: `corrected_share` in strata of the baseline's score. Others, and clusters:
    `corrected_mean` and `corrected_clusters`.

    Args:
        scores: of the rows that were asked.
        baseline: of the same rows.
        rest: the baseline's scores of the other rows.
        scale: the lowest and the highest score that is possible.
        clusters, rest_clusters: of both, where whole clusters were drawn.

    Returns:
        None for fewer than `LEAST_ROWS` rows or `LEAST_CLUSTERS` clusters.

    Raises:
        ValueError: there is not one score of the baseline for each row.
    """
    y, f, others = (np.asarray(values, np.float64) for values in (scores, baseline, rest))
    if len(y) != len(f):
        raise ValueError(f"{len(y)} scores, and {len(f)} of the baseline on the same rows")
    if len(y) < LEAST_ROWS or (clusters is not None and len(set(clusters)) < LEAST_CLUSTERS):
        return None
    result: Corrected | None = None
    if clusters is not None:
        result = corrected_clusters(scores, baseline, clusters, rest, rest_clusters or (), scale=scale, finite=True)
    elif all(np.isin(values, (0.0, 1.0)).all() for values in (y, f, others)):
        result = _corrected_share(_strata(y, f, others), finite=True)
    # A stratum may have no row that was asked.
    if result is None:
        result = corrected_mean(scores, baseline, rest, scale=scale, finite=True)
    return None if result is None else Controlled(result.estimate, result.interval, _gain(y, f))


def _strata(y: _Floats, f: _Floats, others: _Floats) -> list[Stratum]:
    return [
        Stratum(int((f == value).sum() + (others == value).sum()), int((f == value).sum()), float(y[f == value].sum()))
        for value in (0.0, 1.0)
    ]


def _gain(y: _Floats, f: _Floats) -> float | None:
    """1/(1 − r²) with the correlation r of both runs."""
    if not y.std() or not f.std():
        return None
    left = 1 - float(np.corrcoef(y, f)[0, 1]) ** 2
    return 1 / left if left > 0 else math.inf
