"""The effect that a benchmark of n samples can detect, and the number of samples that detect an effect."""

import math
from bisect import bisect_left

from gage_eval.stats.intervals import t_quantile


def minimum_detectable_effect(n: int, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """The smallest true mean difference that a paired test finds with that power.

    (t_{1−α/2} + t_{power}) · sd / √n with n−1 degrees of freedom: Miller (2024), *Adding Error Bars to
    Evals*, with Student's quantiles for the normal ones, which matter for small n.

    Args:
        n: samples, or clusters where these are the independent units.
        sd: standard deviation of the difference of one sample; see `difference_sd`.
        alpha: two-sided level of the test.
        power: chance to find the effect.

    Returns:
        None for n < 2.

    Raises:
        ValueError: sd is negative, or alpha or power is outside (0, 1).
    """
    _check(sd, alpha, power)
    if n < 2:
        return None
    return (t_quantile(1 - alpha / 2, n - 1) + t_quantile(power, n - 1)) * sd / math.sqrt(n)


def required_samples(effect: float, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """The smallest n whose `minimum_detectable_effect` is at most ``effect``, at least 2.

    Raises:
        ValueError: the effect is not positive, sd is negative, or alpha or power is outside (0, 1).
    """
    _check(sd, alpha, power)
    if not effect > 0:
        raise ValueError(f"an effect must be positive, not {effect}")

    def suffices(n: int) -> bool:
        least = minimum_detectable_effect(n, sd, alpha=alpha, power=power)
        return least is not None and least <= effect

    high = 2
    while not suffices(high):
        high *= 2
    return bisect_left(range(high), x=True, lo=max(2, high // 2), key=suffices)


def difference_sd(sd_a: float, sd_b: float, correlation: float) -> float:
    """Standard deviation of a − b: √(s_a² + s_b² − 2ρ·s_a·s_b).

    Raises:
        ValueError: a standard deviation is negative, or ρ is outside −1..1.
    """
    if sd_a < 0 or sd_b < 0 or not -1 <= correlation <= 1:
        raise ValueError(f"standard deviations {sd_a}, {sd_b} and correlation {correlation} are impossible")
    return math.sqrt(max(0.0, (sd_a - sd_b) ** 2 + 2 * (1 - correlation) * sd_a * sd_b))


def _check(sd: float, alpha: float, power: float) -> None:
    if not sd >= 0:
        raise ValueError(f"a standard deviation must not be negative: {sd}")
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise ValueError(f"alpha {alpha} and power {power} must lie between 0 and 1")
