"""Stop asking when the score is known well enough: intervals that hold at every look, however often one looks.

Rows are asked in one random order, without replacement. For each side a bet grows against every value that the mean of
all rows could have (Waudby-Smith & Ramdas 2024, arXiv:2010.09686). A value is refuted when its capital reaches
2/alpha. By Ville's inequality the mean of all rows is ever refuted with a probability of at most alpha.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from gage_eval.stats.intervals import Interval

FIRST_LOOK = 100

_Floats = npt.NDArray[np.float64]
_HALVINGS = 32
# What bets on a difference aim at, as a part of the scale, where no loss is accepted.
_AIM = 0.02


def look_sizes() -> Iterator[int]:
    """The rows of each look: 100 × 1.1^k, without an end."""
    k = 0
    while True:
        yield FIRST_LOOK * 11**k // 10**k
        k += 1


def looks_up_to(rows: int) -> list[int]:
    """The looks before, and one that ends at ``rows``."""
    return [*takewhile(lambda size: size < rows, look_sizes()), rows]


def limits_at(scores: Sequence[float] | _Floats, total: int, half_width: float, *, alpha: float = 0.05) -> Interval:
    """The interval of the mean of all rows, from the rows that were asked.

    The bet on row i is λᵢ = √(2 ln(2/α) / (vᵢ₋₁·n*)) with n* = n₀/(1 + n₀/N) and n₀ = 2 ln(2/α)·vᵢ₋₁/h², where v is the
    variance of the rows before. Any bet from the past is sound; this one makes an interval of half width h early. The
    log capital falls in the mean, so a bisection finds the limit.

    Args:
        scores: of the rows that were asked, in the order of the shuffle; each 0 to 1. NaN is a row without a score: it
            counts as 0 for the lower limit and as 1 for the upper one.
        total: all rows, N.
        half_width: what the bets aim at, h.
        alpha: 1 − the confidence of all looks together.

    Raises:
        ValueError: there are more scores than rows, or one is not within 0..1.
    """
    xs = np.asarray(scores, np.float64)
    known = xs[~np.isnan(xs)]
    if len(xs) > total or (len(known) and not (known.min() >= 0 and known.max() <= 1)):
        raise ValueError(f"{len(xs)} scores of {total} rows: each must be within 0 and 1, and there may be no more")
    if not len(xs):
        return Interval(0.0, 1.0)
    low = _lower(np.where(np.isnan(xs), 0.0, xs), total, half_width, alpha)
    high = 1 - _lower(np.where(np.isnan(xs), 0.0, 1 - xs), total, half_width, alpha)
    return Interval(min(low, high), high)


def is_ever_refuted(
    scores: Sequence[float] | _Floats,
    total: int,
    mean: float,
    looks: Sequence[int],
    half_width: float,
    *,
    alpha: float = 0.05,
) -> bool:
    """Whether a look excludes a mean of all rows: what `limits_by_look` says, without its limits.

    Args:
        scores: without missing ones; total, looks, half_width, alpha: as in `limits_by_look`.
        mean: of all rows.
    """
    ends, needed = np.asarray(looks) - 1, math.log(2 / alpha)
    xs = np.asarray(scores, np.float64)
    sides = ((xs, mean), (1 - xs, 1 - mean))
    return any(
        bool((np.cumsum(_log_gains(own, total, of_all, _bets(own, total, half_width, alpha)))[ends] >= needed).any())
        for own, of_all in sides
    )


def limits_by_look(
    scores: Sequence[float] | _Floats, total: int, looks: Sequence[int], half_width: float, *, alpha: float = 0.05
) -> list[Interval]:
    """The interval after each look. A look never widens what an earlier one has shown.

    Args:
        scores, total, half_width, alpha: as in `limits_at`.
        looks: how many rows each look has.
    """
    limits: list[Interval] = []
    low, high = 0.0, 1.0
    for rows in looks:
        now = limits_at(scores[:rows], total, half_width, alpha=alpha)
        low, high = max(low, now.low), min(high, now.high)
        if low > high:  # An earlier look was wrong, which has a probability of alpha. What is known now counts.
            low, high = now
        limits.append(Interval(low, high))
    return limits


def difference_limits_by_look(
    differences: _Floats, width: float, total: int, looks: Sequence[int], tolerance: float, *, alpha: float = 0.05
) -> list[Interval]:
    """The interval of the mean difference of two runs on all rows, after each look.

    Args:
        differences: of the rows that were asked, each −width to width; NaN is a row without a pair, which may differ by
            anything.
        width: of the range of values.
        total, looks, alpha: as in `limits_by_look`.
        tolerance: what the bets aim to decide, in units of the values; 2 % of the width where it is 0.
    """
    aim = (tolerance or _AIM * width) / (2 * width)
    limits = limits_by_look((differences / width + 1) / 2, total, looks, aim, alpha=alpha)
    return [Interval((2 * low - 1) * width, (2 * high - 1) * width) for low, high in limits]


def _lower(xs: _Floats, total: int, half_width: float, alpha: float) -> float:
    """The smallest mean of all rows that is not refuted from above."""
    n, reached = len(xs), float(xs.sum())
    smallest, largest = reached / total, min(1.0, (reached + total - n) / total)
    bets, needed = _bets(xs, total, half_width, alpha), math.log(2 / alpha)

    def refuted(mean: float) -> bool:
        return bool(_log_gains(xs, total, mean, bets).sum() >= needed)

    if n == total or not refuted(smallest):
        return float(smallest)
    for _ in range(_HALVINGS):
        middle = (smallest + largest) / 2
        if refuted(middle):
            smallest = middle
        else:
            largest = middle
    # The last value that was refuted: an end that is rounded outwards.
    return float(smallest)


def _log_gains(xs: _Floats, total: int, mean: float, bets: _Floats) -> _Floats:
    """What the bet on each row adds to the log capital, if the mean of all rows is ``mean``."""
    before = np.cumsum(xs) - xs
    of_rest = np.maximum((total * mean - before) / (total - np.arange(len(xs))), 0.0)
    with np.errstate(divide="ignore"):
        capped = np.minimum(bets, 0.5 / of_rest)
    return np.asarray(np.log1p(capped * (xs - of_rest)))


def _bets(xs: _Floats, total: int, half_width: float, alpha: float) -> _Floats:
    """λ of each row, from the rows before it."""
    seen = np.arange(2, len(xs) + 2)
    means = (0.5 + np.cumsum(xs)) / seen
    variances = np.concatenate([[0.25], ((0.25 + np.cumsum((xs - means) ** 2)) / seen)[:-1]])
    scale = 2 * math.log(2 / alpha)
    aimed = scale * variances / half_width**2
    return np.asarray(np.sqrt(scale / (variances * (aimed / (1 + aimed / total)))))
