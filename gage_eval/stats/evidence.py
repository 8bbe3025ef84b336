"""What the rows of two runs say about one metric: the difference, its tests, and the bounds on it."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gage_eval.stats.bootstrap import DRAWS
from gage_eval.stats.clusters import clustered_stderr, weighted_mean_stderr
from gage_eval.stats.intervals import LEAST_SHOWN, t_quantile
from gage_eval.stats.paired_binary import mcnemar, mcnemar_mid_p, tango_interval
from gage_eval.stats.paired_bootstrap import PairedNumbers, paired_bootstrap
from gage_eval.stats.pooling import macro_freedom
from gage_eval.stats.repeats import RunNoise, noise_of, run_noise, skewness
from gage_eval.stats.special import t_cdf, t_tail

Floats: TypeAlias = npt.NDArray[np.float64]
Test: TypeAlias = Literal["mcnemar", "t", "bootstrap", "none"]

REPEATS_FOR_NOISE = 3  # of a baseline, to tell run noise from row noise
REPEATS_ADVISED = 5  # fewer cost power, and the alarm needs so many
# Repeats differ by row noise, too. So noise between runs counts only where its own test finds it at this level: false
# alarms at a level of 5 % stay below 7 %, however large the noise is (docs/gate-simulations.md).
_NOISE_P = 0.25
_ROUNDING = 1e-12  # a spread that is smaller, relative to the values, is that of floats
_SKEW = 25  # rows per squared unit of skewness that Student's t needs (Cochran 1977, Sampling Techniques, 2.15)


@dataclass(frozen=True)
class PairedRows:
    """One number of two runs, for the samples that both have scored.

    Attributes:
        current: one value per sample, the mean of its replicates.
        baseline: one row per repeat of the baseline, one column per sample.
        clusters: the cluster of each sample; None where samples are independent.
        binary: each value is one answer that is right (1) or wrong (0).
        higher_is_better: whether a larger value is a better one.
        weights: of each sample, above 0; None where all count the same.
        width: of the range that the metric declares for its values; None without such a range.
        numbers: the number of each run, where it is not a mean of the values.
    """

    current: Floats
    baseline: Floats
    clusters: npt.NDArray[np.int64] | None = None
    binary: bool = False
    higher_is_better: bool = True
    weights: Floats | None = None
    width: float | None = None
    numbers: PairedNumbers | None = None

    def __post_init__(self) -> None:
        if self.baseline.ndim != 2 or self.baseline.shape[1] != len(self.current):
            raise ValueError("a baseline has one row per repeat and one column per sample of the current run")

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.current)

    def of_pairs(self, positions: npt.NDArray[np.int64]) -> "PairedRows":
        """Some of the pairs."""
        return replace(
            self,
            current=self.current[positions],
            baseline=self.baseline[:, positions],
            clusters=None if self.clusters is None else self.clusters[positions],
            weights=None if self.weights is None else self.weights[positions],
            numbers=None if self.numbers is None else self.numbers.of_pairs(positions, self.n),
        )

    @property
    def differences(self) -> Floats:
        """Current minus the baseline's mean, with the sign that makes positive better."""
        raw: Floats = self.current - self.baseline.mean(axis=0)
        return raw if self.higher_is_better else -raw

    @property
    def runs(self) -> Floats:
        """All runs: the baseline's repeats, and the current one."""
        return np.vstack([self.baseline, self.current])

    def mean(self, values: Floats) -> float:
        """The mean of one value per sample, with the samples' weights."""
        return float(np.average(values, weights=self.weights))

    @property
    def span(self) -> float:
        """How far two values can lie apart: the declared width, else as far as they do, and at least 1."""
        if self.width is not None:
            return self.width
        return max(1.0, float(np.ptp(np.append(self.current, self.baseline))))

    @property
    def discordant(self) -> tuple[int, int] | None:
        """Samples that became better and samples that became worse; None unless McNemar's test applies."""
        if not self.binary or self.clusters is not None or self.weights is not None or len(self.baseline) != 1:
            return None
        signs = np.sign(self.differences)
        return int(np.count_nonzero(signs > 0)), int(np.count_nonzero(signs < 0))


@dataclass(frozen=True)
class Evidence:
    """What is known about the difference of one metric; positive is better.

    Attributes:
        n: pairs.
        test: ``mcnemar`` (0/1 values, one answer each, no clusters), ``t`` (other means), ``bootstrap`` (numbers that
            are not means), or ``none`` (too few rows, or a number whose error is not known).
        difference: mean of current − baseline, or the difference of the numbers; None without a pair.
        baseline, current: the means, or the numbers, on the same rows.
        sd: standard deviation of one pair's difference, in the units of n: from the standard error, √n · se.
        stderr: of the difference, run noise included.
        p_worse, p_better: one-sided p values.
        p: two-sided p value; McNemar's exact one for 0/1 values.
        low, high: one-sided bounds, each at level alpha.
        too_skewed: the direction that cannot be claimed, because the differences are too skewed.
        noise: the run noise of the baseline; None with fewer than `REPEATS_FOR_NOISE` repeats.
        row_p_worse: ``p_worse`` from row noise alone.
        span: how far two values of the metric can lie apart.
        width: of the range that the metric declares for its values; None without such a range.
        binary: each value is one answer that is right or wrong.
    """

    n: int
    test: Test = "none"
    difference: float | None = None
    baseline: float | None = None
    current: float | None = None
    sd: float | None = None
    stderr: float | None = None
    p_worse: float = 1.0
    p_better: float = 1.0
    p: float = 1.0
    low: float = -math.inf
    high: float = math.inf
    too_skewed: Literal["worse", "better"] | None = None
    noise: RunNoise | None = None
    row_p_worse: float = 1.0
    span: float = 1.0
    width: float | None = None
    binary: bool = False

    @property
    def test_name(self) -> str:
        """The test for readers; empty without one."""
        return {"mcnemar": "McNemar", "t": "t-test", "bootstrap": "bootstrap", "none": ""}[self.test]

    @property
    def bounds(self) -> tuple[float, float] | None:
        """``low`` and ``high`` as they are shown. None without a test, and for fewer than 5 pairs but for McNemar's."""
        if self.test == "none" or (self.test != "mcnemar" and self.n < LEAST_SHOWN):
            return None
        return self.low, self.high

    @property
    def delta(self) -> float | None:
        """Current − baseline, rounded to six decimals: where less is better, a loss is positive."""
        return None if self.current is None or self.baseline is None else round(self.current - self.baseline, 6)


def evidence(rows: PairedRows, *, alpha: float = 0.05, draws: int = DRAWS) -> Evidence:
    """The tests and bounds of one metric.

    0/1 values of one answer each, without clusters: McNemar's mid-p test and Tango's score interval. All others: the
    paired t test on (weighted) row means, with C − 1 degrees of freedom for C clusters. A baseline of three or more
    repeats whose means differ more than their rows explain (p < 0.25) adds that variance v: se² = s_d²/n + v(1 + 1/R),
    with R − 1 degrees of freedom. Numbers that are not means: the paired bootstrap (`paired_bootstrap`).

    Args:
        rows: the paired values.
        alpha: level of the one-sided bounds.
        draws: of the bootstrap.
    """
    if rows.n == 0:
        return Evidence(0)
    if rows.numbers is not None:
        return replace(_of_numbers(rows, rows.numbers, alpha, draws), width=rows.width)
    discordant = rows.discordant
    numbers = _of_means(rows, alpha) if discordant is None else _of_discordant(rows.n, *discordant, alpha)
    return replace(
        numbers,
        baseline=rows.mean(rows.baseline.mean(axis=0)),
        current=rows.mean(rows.current),
        width=1.0 if rows.binary else rows.width,
        binary=rows.binary,
    )


def unlike(a: Evidence, b: Evidence) -> float:
    """The two-sided p value that two groups of rows changed differently, from row noise: Welch's test.

    1 where one of them has fewer than two rows.
    """
    if a.difference is None or b.difference is None or a.sd is None or b.sd is None or min(a.n, b.n) < 2:
        return 1.0
    stderrs = [group.sd / math.sqrt(group.n) for group in (a, b) if group.sd is not None]
    freedom = macro_freedom([a.n, b.n], stderrs)
    distance = a.difference - b.difference
    if freedom is None:
        return float(math.isclose(distance, 0, abs_tol=_ROUNDING))
    return t_tail(distance / math.hypot(*stderrs), freedom)


def _of_discordant(n: int, better: int, worse: int, alpha: float) -> Evidence:
    bounds = tango_interval(better, worse, n, z=NormalDist().inv_cdf(1 - alpha))
    assert bounds is not None
    difference = (better - worse) / n
    sd = math.sqrt(max(0.0, (better + worse) / n - difference**2))
    p_worse = mcnemar_mid_p(worse, better)
    return Evidence(
        n,
        "mcnemar",
        difference,
        sd=sd,
        stderr=sd / math.sqrt(n),
        p_worse=p_worse,
        p_better=mcnemar_mid_p(better, worse),
        p=mcnemar(better, worse),
        low=bounds.low,
        high=bounds.high,
        row_p_worse=p_worse,
    )


def _of_means(rows: PairedRows, alpha: float) -> Evidence:
    n, differences = rows.n, rows.differences
    difference = rows.mean(differences)
    stderr, units = _stderr(rows, difference)
    numbers = Evidence(n, difference=difference, noise=_noise(rows))
    if stderr is None:
        return numbers
    if stderr < _ROUNDING * max(1.0, float(np.abs(differences).max())):
        stderr = 0.0
    freedom: float = len(units) - 1
    row_p_worse = _one_sided(difference, stderr, freedom)
    total = stderr
    if numbers.noise is not None and (of_noise := _noise_freedom(numbers.noise)) is not None:
        total, freedom = _with_noise(stderr, numbers.noise), of_noise
    half = t_quantile(1 - alpha, freedom) * total
    if stderr == 0:
        half = max(half, difference - _bounds_of_equal_rows(rows, difference, alpha)[0])
        row_p_worse = 0.5 if difference == 0 else 0.5**n if difference < 0 else 1 - 0.5**n
    p_worse = row_p_worse if total == stderr else _one_sided(difference, total, freedom)
    return Evidence(
        n,
        "t",
        difference,
        sd=stderr * math.sqrt(n),
        stderr=total,
        p_worse=p_worse,
        p_better=1 - p_worse,
        p=min(1.0, 2 * min(p_worse, 1 - p_worse)),
        low=difference - half,
        high=difference + half,
        too_skewed=_too_skewed(units),
        noise=numbers.noise,
        row_p_worse=row_p_worse,
        span=rows.span,
    )


def _of_numbers(rows: PairedRows, numbers: PairedNumbers, alpha: float, draws: int) -> Evidence:
    n, sign = rows.n, 1 if rows.higher_is_better else -1
    *repeats, current = numbers.values(np.ones(n, np.int64)).tolist()
    baseline = math.fsum(repeats) / len(repeats)
    if not math.isfinite(current - baseline):
        return Evidence(n, span=rows.span)
    difference = sign * (current - baseline)
    known = Evidence(n, difference=difference, baseline=baseline, current=current, span=rows.span)
    drawn = paired_bootstrap(numbers, n, rows.clusters, draws=draws)
    if drawn is None:
        return known
    noise = None
    if drawn.row_variance is not None and len(repeats) >= REPEATS_FOR_NOISE:
        noise = noise_of(np.array(repeats), drawn.row_variance)
    stderr = drawn.stderr
    p_worse = row_p_worse = drawn.tail(-sign)
    p_better = drawn.tail(sign)
    low, high = drawn.bounds(alpha) if sign > 0 else (-bound for bound in reversed(drawn.bounds(alpha)))
    if stderr < _ROUNDING * max(1.0, abs(current), abs(baseline)):
        stderr, (low, high) = 0.0, _bounds_of_equal_rows(rows, difference, alpha)
    total = stderr
    if noise is not None and (freedom := _noise_freedom(noise)) is not None:
        total = _with_noise(stderr, noise)
        p_worse = _one_sided(difference, total, freedom)
        p_better = 1 - p_worse
        half = t_quantile(1 - alpha, freedom) * total
        low, high = difference - half, difference + half
    return replace(
        known,
        test="bootstrap",
        sd=stderr * math.sqrt(n),
        stderr=total,
        p_worse=p_worse,
        p_better=p_better,
        p=min(1.0, 2 * min(p_worse, p_better)),
        low=low,
        high=high,
        noise=noise,
        row_p_worse=row_p_worse,
    )


def _noise_freedom(noise: RunNoise | None) -> int | None:
    """The degrees of freedom of noise between runs that counts; None where none does."""
    return noise.repeats - 1 if noise is not None and noise.variance > 0 and noise.p < _NOISE_P else None


def _with_noise(stderr: float, noise: RunNoise) -> float:
    """The standard error of the difference with the noise of the current run and of the mean of R others."""
    return math.sqrt(stderr**2 + noise.variance * (1 + 1 / noise.repeats))


def _bounds_of_equal_rows(rows: PairedRows, difference: float, alpha: float) -> tuple[float, float]:
    """The bound of Tango's interval without discordant pairs, for values that can lie as far apart as these.

    Even if all differences are equal, the next one may not be.
    """
    z2 = NormalDist().inv_cdf(1 - alpha) ** 2
    half = rows.span * z2 / (rows.n + z2)
    return difference - half, difference + half


def _stderr(rows: PairedRows, mean: float) -> tuple[float | None, Floats]:
    """The standard error of the mean difference, and what varies independently: the rows, or the totals of clusters."""
    differences = rows.differences
    residuals = differences - mean if rows.weights is None else rows.weights * (differences - mean)
    if rows.clusters is not None:
        codes = np.unique(rows.clusters, return_inverse=True)[1]
        totals = np.bincount(codes, weights=residuals).astype(np.float64)
        return clustered_stderr(differences, rows.clusters, rows.weights), totals
    if rows.weights is not None:
        return weighted_mean_stderr(differences, rows.weights).stderr, residuals
    n = len(differences)
    return (None if n < 2 else float(np.std(differences, ddof=1)) / math.sqrt(n)), residuals


def _noise(rows: PairedRows) -> RunNoise | None:
    if len(rows.baseline) < REPEATS_FOR_NOISE:
        return None
    # Scaled so that the plain mean over samples is the weighted one.
    scaled = rows.baseline if rows.weights is None else rows.baseline * rows.weights / rows.weights.mean()
    return run_noise(scaled)


def _one_sided(difference: float, stderr: float, freedom: float) -> float:
    """P(T ≤ difference / stderr): small for a loss."""
    if stderr == 0:
        return 0.5 if difference == 0 else float(difference > 0)
    return t_cdf(difference / stderr, freedom)


def _too_skewed(units: Floats) -> Literal["worse", "better"] | None:
    """Positive skew makes Student's t find losses too often; negative skew does so with gains and bounds."""
    skew = skewness(units)
    if len(units) >= _SKEW * skew**2:
        return None
    return "worse" if skew > 0 else "better"
