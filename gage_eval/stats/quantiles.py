"""Quantiles of a sample and their distribution-free intervals."""

import math
from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from gage_eval.stats.intervals import Interval
from gage_eval.stats.special import binomial_cdf


def quantile(values: npt.NDArray[np.float64], p: float) -> float | None:
    """The p-quantile with linear interpolation between order statistics (Hyndman & Fan 1996, type 7).

    For p = ½ it is the usual median. None for no value.

    Raises:
        ValueError: p is outside 0..1.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"p must lie within 0 and 1, not {p}")
    return repeated_quantile(np.sort(values), np.arange(1, len(values) + 1), p)


def repeated_quantile(ordered: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], p: float) -> float | None:
    """The `quantile` of values of which each is there several times.

    Args:
        ordered: the values, in order.
        counts: how many values there are up to each one, itself included.
        p: as for `quantile`.
    """
    n = int(counts[-1]) if len(counts) else 0
    if n == 0:
        return None
    position = (n - 1) * p
    below = math.floor(position)
    at = np.searchsorted(counts, (below, min(below + 1, n - 1)), side="right")
    low, high = (float(value) for value in ordered[at])
    return low if low == high else low + (high - low) * (position - below)


def quantile_interval(values: npt.NDArray[np.float64], p: float, *, confidence: float = 0.95) -> Interval | None:
    """Two order statistics that hold the p-quantile with at least the confidence (David & Nagaraja 2003, §7.1).

    Whatever the distribution, x₍l₎ ≤ quantile ≤ x₍u₎ with probability at least P(l ≤ X < u), X ~ Bin(n, p). Each
    side leaves out at most half of 1 − confidence.

    Returns:
        None when too few values are on one side, as for p99 of a hundred values.
    """
    n = len(values)
    each = (1 - confidence) / 2
    # The largest l with P(X < l) ≤ each, and the smallest u with P(X ≥ u) ≤ each, 1-based.
    lower = bisect_left(range(n), x=True, key=lambda k: binomial_cdf(k, n, p) > each)
    upper = bisect_left(range(n), x=True, key=lambda k: binomial_cdf(k, n, p) >= 1 - each) + 1
    if lower < 1 or upper > n:
        return None
    ordered = np.sort(values)
    return Interval(float(ordered[lower - 1]), float(ordered[upper - 1]))
