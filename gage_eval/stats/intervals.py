"""Mean, standard error, Wilson's and Student's intervals, all two-sided 95 % unless stated otherwise.

Sums are `math.fsum`: correctly rounded, so the same values give the same bits on every machine and in every
order.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gage_eval.stats.special import beta_inc, bisect

Z_95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""

LEAST_SHOWN = 5
"""Student's interval of fewer samples is wider than any number is: it is shown as unknown."""

_MANY = 2000  # degrees of freedom
_FLOATS = 65_536
# Sums of squares of smaller values are floats.
_LARGE = 1e100


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


class MeanStderr(NamedTuple):
    """A mean and its standard error. The error is None for fewer than two values, the mean is None for no value."""

    mean: float | None
    stderr: float | None


def mean_stderr(values: Iterable[float] | npt.NDArray[np.float64]) -> MeanStderr:
    """Mean x̄ and s/√n with s = √(Σ(x−x̄)²/(n−1)).

    Args:
        values: one value per sample (replicates already reduced).

    Returns:
        (None, None) for no value, (x, None) for one value: its spread is unknown, which is not 0.
    """
    xs = values if isinstance(values, np.ndarray) else np.array(list(values), np.float64)
    if (scale := scale_of(xs)) != 1:
        return rescaled(mean_stderr(xs / scale), scale)
    n = len(xs)
    if n == 0:
        return MeanStderr(None, None)
    mean = math.fsum(floats(xs)) / n
    if n == 1:
        return MeanStderr(mean, None)
    variance = math.fsum((x - mean) ** 2 for x in floats(xs)) / (n - 1)
    return MeanStderr(mean, math.sqrt(variance / n))


def scale_of(values: npt.NDArray[np.float64]) -> float:
    """The divisor that keeps sums of squares within floats: 1, or for huge values a power of two."""
    largest = float(np.abs(values).max(initial=0.0))
    return 1.0 if largest < _LARGE else 2.0 ** (math.frexp(largest)[1] - 1)


def rescaled(estimate: MeanStderr, scale: float) -> MeanStderr:
    """Mean and error of values from those of the values divided by ``scale``; None for a number beyond floats."""
    mean, stderr = (None if number is None or math.isinf(number * scale) else number * scale for number in estimate)
    return MeanStderr(mean, stderr)


def floats(values: npt.NDArray[np.float64]) -> Iterator[float]:
    """The values as Python floats, a few at a time: a list of all takes four times the memory."""
    for start in range(0, len(values), _FLOATS):
        yield from values[start : start + _FLOATS].tolist()


def wilson_interval(successes: float, n: float, *, z: float = Z_95) -> Interval | None:
    """Wilson's score interval for a share (Wilson 1927).

    Args:
        successes: Σx of 0/1 values.
        n: number of values, fractional where it is an effective one.
        z: quantile of the normal distribution.

    Returns:
        Bounds within 0..1, or None for n = 0.

    Raises:
        ValueError: successes are outside 0..n.
    """
    if n == 0:
        return None
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    share = successes / n
    centre = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # Rounding must not exclude the observed 0 or 1, which lie exactly on the bounds.
    low = 0.0 if successes == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + spread) / scale)
    return Interval(low, high)


def t_interval(mean: float, stderr: float | None, df: float, *, confidence: float = 0.95) -> Interval | None:
    """x̄ ± t · stderr with the quantile of Student's t for ``df`` degrees of freedom.

    Returns:
        None where there is no standard error or no degree of freedom (n < 2), or a bound is beyond floats.
    """
    if stderr is None or df < 1:
        return None
    half = t_quantile((1 + confidence) / 2, df) * stderr
    bounds = Interval(mean - half, mean + half)
    return bounds if all(map(math.isfinite, bounds)) else None


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """The quantile of Student's t distribution: P(T ≤ t) = p, to about 1e-12 relative.

    P(|T| > t) = I_x(df/2, 1/2) with x = df/(df+t²) (Abramowitz & Stegun 26.7.1). The regularised incomplete
    beta is inverted by bisection in the smaller one of x and 1−x, where floats are dense. For many
    degrees of freedom its logarithms would cancel; there the expansion A&S 26.7.5 is exact to the last bits.

    Raises:
        ValueError: p outside (0, 1), or df not positive.
    """
    if not 0 < p < 1:
        raise ValueError(f"p must lie between 0 and 1, not {p}")
    if not df > 0:
        raise ValueError(f"df must be positive, not {df}")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    if p == 0.5:
        return 0.0
    if df >= _MANY:
        return _t_expansion(NormalDist().inv_cdf(p), df)
    tail = 2 * (1 - p)
    a = df / 2
    if beta_inc(a, 0.5, 0.5) >= tail:  # x ≤ 1/2
        x = bisect(lambda v: beta_inc(a, 0.5, v) - tail)
        return math.sqrt(df * (1 - x) / x)
    y = bisect(lambda v: beta_inc(0.5, a, v) - (1 - tail))  # y = 1 − x < 1/2
    return math.sqrt(df * y / (1 - y))


def reduce_replicates(row_index: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean of each sample's replicates, ordered by row index.

    Args:
        row_index: sample of each value.
        values: one value per score row; the same length.
    """
    rows, inverse, counts = np.unique(row_index, return_inverse=True, return_counts=True)
    if len(rows) == len(values):
        return values[np.argsort(row_index)]
    return np.bincount(inverse, weights=values) / counts


def _t_expansion(z: float, df: float) -> float:
    """The quantile of t from that of the normal distribution, in powers of 1/df (A&S 26.7.5)."""
    z2 = z * z
    terms = (
        z * (z2 + 1) / 4,
        z * ((5 * z2 + 16) * z2 + 3) / 96,
        z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
        z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
    )
    return z + sum(term / df**power for power, term in enumerate(terms, start=1))
