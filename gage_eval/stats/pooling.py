"""One number for several tasks: micro (every sample counts the same) and macro (every task does)."""

import math
from collections.abc import Sequence

from gage_eval.stats.intervals import Interval


def pooled_mean(ns: Sequence[int], means: Sequence[float]) -> float | None:
    """Micro score Σ nᵢmᵢ / Σnᵢ; None for no sample.

    Raises:
        ValueError: the lengths differ, or a task has a negative number of samples.
    """
    total = _total(ns, means)
    return math.fsum(n * mean for n, mean in zip(ns, means, strict=True)) / total if total else None


def pooled_stderr(ns: Sequence[int], stderrs: Sequence[float | None]) -> float | None:
    """Standard error of a micro score: √(Σ (nᵢ−1)·nᵢ·seᵢ² / (Σnᵢ−k) / Σnᵢ) over k tasks.

    It pools the variances within the tasks, as the lm-eval harness does: the tasks are a fixed set, so their
    differences are not an error.

    Args:
        ns: samples of each task.
        stderrs: standard error of each task's mean; None only for a task with at most one sample, which adds
        nothing.

    Returns:
        None when no task has two samples, or a standard error of a larger task is unknown.
    """
    total = _total(ns, stderrs)
    freedom = total - sum(1 for n in ns if n)
    if freedom < 1:
        return None
    terms = []
    for n, stderr in zip(ns, stderrs, strict=True):
        if n < 2:
            continue
        if stderr is None:
            return None
        terms.append((n - 1) * n * stderr**2)
    return math.sqrt(math.fsum(terms) / freedom / total)


def macro_mean(means: Sequence[float]) -> float | None:
    """Macro score: the mean of the tasks' scores; None for no task."""
    return math.fsum(means) / len(means) if means else None


def macro_stderr(stderrs: Sequence[float | None]) -> float | None:
    """Standard error of a macro score: √(Σ seᵢ²) / k; None when one is unknown."""
    known = [stderr for stderr in stderrs if stderr is not None]
    if not known or len(known) != len(stderrs):
        return None
    return math.hypot(*known) / len(known)


def macro_freedom(ns: Sequence[int], stderrs: Sequence[float | None]) -> float | None:
    """Degrees of freedom of a macro score's standard error: (Σ seᵢ²)² / Σ (seᵢ⁴/(nᵢ−1)) (Welch–Satterthwaite).

    Returns:
        None when a standard error is unknown, or all are 0.
    """
    _total(ns, stderrs)
    squares = [stderr**2 for stderr in stderrs if stderr is not None]
    if len(squares) != len(stderrs) or not any(squares):
        return None
    largest = max(squares)  # Scaled, so that fourth powers of small errors do not vanish.
    shares = [square / largest for square in squares]
    return math.fsum(shares) ** 2 / math.fsum(s * s / (n - 1) for s, n in zip(shares, ns, strict=True) if s)


def mover_interval(weights: Sequence[float], means: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """The interval of Σwᵢmᵢ from those of independent means: Σwᵢmᵢ − √Σwᵢ²(mᵢ−lᵢ)² to Σwᵢmᵢ + √Σwᵢ²(uᵢ−mᵢ)².

    MOVER, the method of variance estimates recovery (Zou & Donner 2008, Statistics in Medicine 27).

    Args:
        weights: at least 0 each.
        means, intervals: of each task; every mean lies within its interval.
    """
    mean = math.fsum(w * m for w, m in zip(weights, means, strict=True))
    parts = list(zip(weights, means, intervals, strict=True))
    below = math.hypot(*(w * (m - interval.low) for w, m, interval in parts))
    above = math.hypot(*(w * (interval.high - m) for w, m, interval in parts))
    return Interval(mean - below, mean + above)


def _total(ns: Sequence[int], others: Sequence[object]) -> int:
    if len(ns) != len(others):
        raise ValueError(f"sizes of {len(ns)} tasks and numbers of {len(others)}")
    if any(n < 0 for n in ns):
        raise ValueError("a task has a negative number of samples")
    return sum(ns)
