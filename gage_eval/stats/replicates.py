"""Combine several answers to one sample into one value: pass@k, pass^k, votes.

c of n answers are right; the estimates are unbiased for k ≤ n answers drawn without replacement.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """P(at least one of k answers is right) = 1 − C(n−c, k) / C(n, k) (Chen et al. 2021, HumanEval).

    Args:
        n: answers of the sample.
        c: right ones.
        k: answers drawn.

    Returns:
        None for k > n: n answers are too few.

    Raises:
        ValueError: c is outside 0..n, or k is below 1.
    """
    _check(n, c, k)
    if k > n:
        return None
    if n - c < k:
        return 1.0
    return -math.expm1(_log_share(n, n - c, k))


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """P(all of k answers are right) = C(c, k) / C(n, k) (Yao et al. 2024, τ-bench).

    Returns:
        None for k > n.

    Raises:
        ValueError: c is outside 0..n, or k is below 1.
    """
    _check(n, c, k)
    if k > n:
        return None
    return 0.0 if c < k else math.exp(_log_share(n, c, k))


def at_least_k(n: int, c: int, k: int) -> float | None:
    """1 when k or more of the n answers are right, else 0; None for no answer.

    Raises:
        ValueError: c is outside 0..n, or k is below 1.
    """
    _check(n, c, k)
    return float(c >= k) if n else None


def majority_value(values: Sequence[T]) -> T | None:
    """The value that more than half of the answers have; None without one."""
    if not values:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def modal_value(values: Sequence[T]) -> T | None:
    """The most frequent value, the first of those that are equally frequent; None for no value."""
    return Counter(values).most_common(1)[0][0] if values else None


def _check(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"{c} right answers of {n}")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")


def _log_share(n: int, m: int, k: int) -> float:
    """ln(C(m, k) / C(n, k)) for k ≤ m ≤ n, as a sum of ln(1 − (n−m)/i): exact where the share is near 0 or 1.

    C(m, k)/C(n, k) is symmetric in k and n−m, so the sum runs over the fewer terms.
    """
    missing, drawn = n - m, k
    few, many = (missing, drawn) if missing <= drawn else (drawn, missing)
    return math.fsum(math.log1p(-many / i) for i in range(n - few + 1, n + 1))
