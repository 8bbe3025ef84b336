"""Agreement of two or more raters on the same answers: accuracy, confusion, Cohen's kappa, Krippendorff's alpha."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["nominal", "ordinal", "interval"]


def confusion(first: Sequence[float], second: Sequence[float]) -> Mapping[tuple[float, float], int]:
    """How often each pair of ratings was given; sorted by the pair.

    Raises:
        ValueError: the lengths differ.
    """
    return dict(sorted(Counter(zip(first, second, strict=True)).items()))


def cohen_kappa(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Cohen's kappa (Cohen 1960), unweighted: (p_o − p_e) / (1 − p_e).

    Returns:
        None without a rating, and where both raters give one and the same rating always: it is undefined there.

    Raises:
        ValueError: the lengths differ.
    """
    n = len(first)
    agreed = sum(a == b for a, b in zip(first, second, strict=True))
    of_first, of_second = Counter(first), Counter(second)
    by_chance = sum(count * of_second[rating] for rating, count in of_first.items())
    if by_chance == n * n:
        return None
    return (agreed * n - by_chance) / (n * n - by_chance)


def krippendorff_alpha(units: Sequence[Sequence[float | None]], level: Level) -> float | None:
    """Krippendorff's alpha, 1 − D_o/D_e (Krippendorff 2004, *Content Analysis*, chapter 11).

    Args:
        units: of each answer its ratings, None where a rater gave none. Answers with fewer than two do not count.
        level: of measurement, which says how far two ratings are apart.

    Returns:
        None where alpha is undefined: nothing was rated twice, or all ratings are equal.
    """
    rated = [[rating for rating in unit if rating is not None] for unit in units]
    counted = [Counter(unit) for unit in rated if len(unit) > 1]
    totals: Counter[float] = sum(counted, Counter())
    if len(totals) < 2:
        return None
    distance = _distance(totals, level)
    observed = math.fsum(_pairs(unit, distance) / (unit.total() - 1) for unit in counted)
    return 1 - observed * (totals.total() - 1) / _pairs(totals, distance)


def _pairs(counts: Counter[float], distance: Callable[[float, float], float]) -> float:
    """Σ nᵢnⱼδ(i, j) over pairs of different ratings."""
    return math.fsum(n * m * distance(a, b) for a, n in counts.items() for b, m in counts.items() if a != b)


def _distance(totals: Counter[float], level: Level) -> Callable[[float, float], float]:
    if level == "nominal":
        return lambda a, b: 1.0
    if level == "interval":
        return lambda a, b: (a - b) ** 2
    # Ordinal: the number of ratings between the two, half of each end included.
    place: dict[float, float] = {}
    before = 0
    for rating in sorted(totals):
        place[rating] = before + totals[rating] / 2
        before += totals[rating]
    return lambda a, b: (place[a] - place[b]) ** 2
