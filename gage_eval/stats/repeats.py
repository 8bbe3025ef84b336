"""How much a model's score varies between runs, beyond what its rows explain."""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from gage_eval.stats.special import chi_square_tail


@dataclass(frozen=True, slots=True)
class RunNoise:
    """The noise between several runs of the same model on the same rows.

    Attributes:
        repeats: runs, R.
        variance: v = max(0, variance of the runs' means − mean row variance / n): of one run's mean, beyond row noise.
        p: chance of means that differ as much when rows vary independently: the tail of chi-square with R − 1
            degrees of freedom at (R − 1) · variance of the means / (mean row variance / n).
    """

    repeats: int
    variance: float
    p: float


def flips(repeats: npt.NDArray[np.float64]) -> float | None:
    """How many samples score differently in two runs of the same model: the mean over all pairs of runs.

    Args:
        repeats: one row per run, one column per sample.

    Returns:
        None for fewer than two runs.
    """
    if len(repeats) < 2:
        return None
    return float(np.mean([np.count_nonzero(a != b) for a, b in combinations(repeats, 2)]))


def run_noise(repeats: npt.NDArray[np.float64]) -> RunNoise | None:
    """Estimate the noise between runs.

    Args:
        repeats: one row per run, one column per sample.

    Returns:
        None for fewer than two runs, or without a sample: the noise is unknown.
    """
    runs, n = repeats.shape
    if runs < 2 or n == 0:
        return None
    return noise_of(repeats.mean(axis=1), float(np.var(repeats, axis=0, ddof=1).mean()) / n)


def noise_of(numbers: npt.NDArray[np.float64], of_rows: float) -> RunNoise:
    """Estimate the noise between runs from one number of each.

    Args:
        numbers: of at least two runs.
        of_rows: the variance that the rows explain.
    """
    runs, of_means = len(numbers), float(np.var(numbers, ddof=1))
    if of_rows == 0:
        # If no row changes, the means can differ only by rounding.
        return RunNoise(runs, 0.0, 1.0)
    excess = of_means - of_rows
    variance = excess if excess > 1e-12 * of_rows else 0.0
    return RunNoise(runs, variance, chi_square_tail((runs - 1) * of_means / of_rows, runs - 1))


def expected_next(runs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The value that each sample is expected to have in one more run, if all runs are of the same model.

    Z·mᵢ + (1 − Z)·m with the sample's mean mᵢ, the mean m of all, and Z = b / (b + w/R) from the variances within (w)
    and between (b) samples: the credibility of Bühlmann (1967), Experience rating and credibility. For right and wrong
    answers it is exact where the samples' rates have a beta distribution.

    Args:
        runs: one row per run, at least two; one column per sample, at least two.
    """
    means = runs.mean(axis=0)
    noise = float(np.var(runs, axis=0, ddof=1).mean()) / len(runs)
    between = max(0.0, float(np.var(means, ddof=1)) - noise)
    credibility = between / (between + noise) if between + noise else 1.0
    expected: npt.NDArray[np.float64] = credibility * means + (1 - credibility) * means.mean()
    return expected


def skewness(values: npt.NDArray[np.float64]) -> float:
    """Fisher's moment coefficient g₁ = m₃ / m₂^1.5; 0 for values without spread."""
    if len(values) == 0:
        return 0.0
    centred = values - values.mean()
    second = float(np.mean(centred**2))
    if second == 0 or math.sqrt(second) < 1e-12 * max(1.0, float(np.abs(values).max())):
        return 0.0
    third: float = float(np.mean(centred**3))
    return third / math.pow(second, 1.5)
