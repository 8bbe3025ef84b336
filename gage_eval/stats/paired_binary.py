"""Two runs on the same samples, each answer right (1) or wrong (0): tests and intervals of the discordant pairs.

A pair is discordant where only one run is right: ``b`` samples that only the first has right, ``c`` that only the
second has right. The other pairs say nothing about which run is better, but they bound the difference.
"""

import math

from gage_eval.stats.intervals import Interval
from gage_eval.stats.special import half_binomial_cdf, half_binomial_pmf

_STEPS = 60  # After so many halvings, an interval of length 2 is shorter than a float can show.


def mcnemar(b: int, c: int) -> float:
    """Two-sided p value of McNemar's exact test (McNemar 1947): 2·P(X ≤ min(b, c)), X ~ Bin(b+c, ½), at most 1.

    Args:
        b: samples that only the first run has right.
        c: samples that only the second run has right.

    Returns:
        1 without a discordant pair.

    Raises:
        ValueError: a count is negative.
    """
    _check(b, c)
    return 1.0 if b == c else min(1.0, 2 * half_binomial_cdf(min(b, c), b + c))


def mcnemar_mid_p(b: int, c: int) -> float:
    """One-sided mid-p value of McNemar's test: P(X > b) + ½·P(X = b), X ~ Bin(b+c, ½).

    Small if the first run is right more often than the second. With few discordant pairs, the exact test gives false
    alarms much more rarely than its level; the mid-p test is close to its level (Fagerland, Lydersen and Laake
    2013, *The McNemar test for binary matched-pairs data*).

    Args:
        b: samples that only the first run has right.
        c: samples that only the second run has right.

    Returns:
        ½ without a discordant pair.

    Raises:
        ValueError: a count is negative.
    """
    _check(b, c)
    n = b + c
    if b == c:
        return 0.5
    at = half_binomial_pmf(min(b, c), n)
    smaller = half_binomial_cdf(min(b, c), n) - at / 2
    return smaller if b > c else 1 - smaller


def tango_interval(b: int, c: int, n: int, *, z: float) -> Interval | None:
    """Tango's score interval of the difference of two paired shares, (b − c)/n (Tango 1998, Statistics in Medicine 17).

    It holds the differences Δ with |b − c − nΔ| ≤ z·√(n(2q + Δ(1 − Δ))), where q is the most likely share of samples
    that only the second run has right, given Δ. Without a discordant pair it still has the width 2z²/(n + z²).

    Args:
        b: samples that only the first run has right.
        c: samples that only the second run has right.
        n: all pairs.
        z: quantile of the normal distribution: 1.96 for 95 %, 1.645 for a one-sided bound at 5 %.

    Returns:
        Bounds within −1..1; None for n = 0.

    Raises:
        ValueError: a count is negative, or the discordant pairs are more than n.
    """
    _check(b, c)
    if b + c > n:
        raise ValueError(f"{b} and {c} discordant pairs of {n}")
    if n == 0:
        return None
    observed = (b - c) / n
    return Interval(
        -_furthest(c, b, n, -observed, z),
        _furthest(b, c, n, observed, z),
    )


def _furthest(b: int, c: int, n: int, observed: float, z: float) -> float:
    """The largest Δ ≥ (b − c)/n that the score test does not reject."""
    inside, outside = observed, 1.0
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break
        if _distance(b, c, n, middle) <= z:
            inside = middle
        else:
            outside = middle
    return inside


def _distance(b: int, c: int, n: int, delta: float) -> float:
    """The distance of Δ above the observed difference, in standard errors."""
    half = (2 * n - b + c) * delta - b - c
    q = (math.sqrt(half * half + 8 * n * c * delta * (1 - delta)) - half) / (4 * n)
    variance = n * (2 * q + delta * (1 - delta))
    return math.inf if variance <= 0 else (n * delta - (b - c)) / math.sqrt(variance)


def _check(b: int, c: int) -> None:
    if b < 0 or c < 0:
        raise ValueError(f"counts of discordant pairs are {b} and {c}")
