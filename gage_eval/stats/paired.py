"""Two runs on the same samples: the difference is taken sample by sample, never between two means."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gage_eval.stats.clusters import clustered_stderr
from gage_eval.stats.intervals import mean_stderr, t_interval
from gage_eval.stats.special import t_tail


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of a − b over samples.

    Attributes:
        n: pairs.
        difference: mean(a − b); None without a pair.
        stderr: s_d/√n, or the clustered one; None where it is unknown.
        low, high: Student's interval at the given confidence; None without a standard error.
        p: two-sided p value of "no difference"; None without a standard error.
    """

    n: int
    difference: float | None
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


def paired_difference(
    a: Sequence[float] | npt.NDArray[np.float64],
    b: Sequence[float] | npt.NDArray[np.float64],
    *,
    clusters: Sequence[object] | None = None,
    confidence: float = 0.95,
) -> PairedDifference:
    """Paired t test and interval of the difference a − b (Student 1908; Miller 2024 for evaluations).

    Args:
        a: one value per sample.
        b: the values of the same samples in the same order.
        clusters: the cluster of each sample, for a clustered standard error with C−1 degrees of freedom.
        confidence: of the interval.

    Raises:
        ValueError: the lengths differ, or a cluster id is missing.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values against {len(b)}: pairs have the same samples in the same order")
    differences = [float(x) - float(y) for x, y in zip(a, b, strict=True)]
    mean, stderr = mean_stderr(differences)
    freedom = len(differences) - 1
    if clusters is not None:
        stderr = clustered_stderr(differences, clusters)
        freedom = len(set(clusters)) - 1
    if mean is None or stderr is None:
        return PairedDifference(len(differences), mean)
    interval = t_interval(mean, stderr, freedom, confidence=confidence)
    assert interval is not None
    t = 0.0 if mean == 0 else math.inf if stderr == 0 else mean / stderr
    return PairedDifference(len(differences), mean, stderr, interval.low, interval.high, t_tail(t, freedom))
