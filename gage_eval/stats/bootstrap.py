"""Bootstrap standard errors and intervals for numbers that are not a mean over samples.

Seeded. The generators' streams are frozen (Python's `random.Random`, numpy's legacy `RandomState`), so the same values
give the same error on every machine and with every library version.
"""

import math
import random
from collections.abc import Callable, Sequence
from statistics import stdev
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gage_eval.stats.intervals import Interval

DRAWS = 1000
SEED = 1234
_MOST_UNITS = 10_000


class BootstrapResult(NamedTuple):
    """A bootstrap standard error and the 95 % interval between the 2.5 % and 97.5 % quantiles of the draws."""

    stderr: float | None
    interval: Interval | None


def bootstrap_stderr(
    statistic: Callable[[Sequence[float]], float], values: Sequence[float], *, iterations: int = DRAWS
) -> float | None:
    """The standard deviation of a statistic over resamples of the values, as in the lm-eval harness.

    Chunks of up to 1,000 draws, chunk i from ``random.Random(i)``; an incomplete last chunk is not drawn.

    Returns:
        None for fewer than two values or draws.
    """
    xs = list(values)
    size = min(1000, iterations)
    if len(xs) < 2 or size < 2:
        return None
    drawn = []
    for chunk in range(iterations // size):
        generator = random.Random(chunk)  # noqa: S311
        drawn += [statistic(generator.choices(xs, k=len(xs))) for _ in range(size)]
    return stdev(drawn)


def bootstrap_sums(
    terms: npt.NDArray[np.float64],
    statistic: Callable[[npt.NDArray[np.float64]], float],
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> BootstrapResult:
    """Uncertainty of a statistic of sums over samples: BLEU of n-gram counts, perplexity of log-likelihoods.

    More than 10,000 samples are first combined into 10,000 random groups of (nearly) equal size. The sums of groups
    vary as the samples do, and the time does not grow.

    Args:
        terms: what each sample adds, shape (samples, terms).
        statistic: a function of the vector of sums.
        draws: resamples.
        seed: of the generator.

    Returns:
        (None, None) for fewer than two samples, or when the statistic is not finite on a resample.
    """
    count = len(terms)
    if count < 2:
        return BootstrapResult(None, None)
    generator = np.random.RandomState(seed)
    if count > _MOST_UNITS:
        group = unit_groups(count, generator)
        terms = np.stack([np.bincount(group, weights=column, minlength=_MOST_UNITS) for column in terms.T], axis=1)
        count = _MOST_UNITS
    return bootstrap_counts(count, lambda times: statistic(times @ terms), draws=draws, generator=generator)


def bootstrap_counts(
    count: int,
    statistic: Callable[[npt.NDArray[np.int64]], float],
    *,
    draws: int = DRAWS,
    generator: np.random.RandomState | None = None,
) -> BootstrapResult:
    """Uncertainty of a function of how often each of ``count`` units counts.

    Returns:
        (None, None) for fewer than two units, or when the statistic is not finite on a resample.
    """
    generator = generator or np.random.RandomState(SEED)
    if count < 2:
        return BootstrapResult(None, None)
    drawn = np.empty(draws)
    for index in range(draws):
        drawn[index] = statistic(np.bincount(generator.randint(0, count, size=count), minlength=count))
        if not math.isfinite(drawn[index]):
            return BootstrapResult(None, None)
    low, high = (float(x) for x in np.quantile(drawn, (0.025, 0.975)))
    mean = math.fsum(drawn.tolist()) / draws
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in drawn.tolist()) / (draws - 1))
    return BootstrapResult(spread, Interval(low, high))


def unit_groups(count: int, generator: np.random.RandomState) -> npt.NDArray[np.int64]:
    """The group of each unit that is drawn: itself, or one of 10,000 random groups of (nearly) equal size."""
    group = np.arange(count) % _MOST_UNITS
    if count > _MOST_UNITS:
        generator.shuffle(group)
    return group
