"""The mean of people's labels, estimated from many verdicts of a judge and few labels.

A judge is biased. Labels of a random part of the rows measure the bias, and the verdicts on the others still narrow
the interval. Every estimate here has its interval at 95 %, and an `estimate` without one where that is unknown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gage_eval.stats.intervals import Z_95, Interval, t_interval, wilson_interval
from gage_eval.stats.pooling import mover_interval

LEAST_CLUSTERS = 40
"""With fewer labelled clusters, the intervals of cluster means hold the truth too rarely."""

LEAST_LABELS = 50
"""Fewer labels are not enough, whatever a formula says."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Corrected:
    """An estimate and its 95 % interval, None where it is unknown.

    Attributes:
        estimate: of the mean label over all rows.
        interval: of the mean in the population that the rows are drawn from.
        tuning: weight of the judge in PPI++, 0 (no use) to 1; None for strata.
    """

    estimate: float
    interval: Interval | None
    tuning: float | None = None


@dataclass(frozen=True, slots=True)
class Stratum:
    """Rows with one verdict: how many there are, how many have a label, and how many labels say "right"."""

    rows: int
    labelled: int
    right: float


def corrected_share(strata: Sequence[Stratum], *, finite: bool = False) -> Corrected | None:
    """The share of right answers, from labels drawn at random within each verdict of the judge.

    Σ wₛ·pₛ over strata, with Wilson's interval for each share pₛ, combined by MOVER (Zou & Donner 2008).

    Args:
        strata: one for each verdict.
        finite: the interval is that of these rows alone, as if no others existed: labels are n/(1 − n/N).

    Returns:
        None without rows, or where a stratum with rows has no label.

    Raises:
        ValueError: a count is larger than the one that it is a part of.
    """
    filled = [stratum for stratum in strata if stratum.rows]
    if not filled or not all(stratum.labelled for stratum in filled):
        return None
    total = sum(stratum.rows for stratum in filled)
    weights = [stratum.rows / total for stratum in filled]
    shares = [stratum.right / stratum.labelled for stratum in filled]
    intervals = [_wilson(stratum, finite) for stratum in filled]
    low, high = mover_interval(weights, shares, intervals)
    estimate = math.fsum(w * share for w, share in zip(weights, shares, strict=True))
    between = 0.0
    if not finite:  # How often each verdict is given is known of these rows only.
        spread = math.fsum(w * (share - estimate) ** 2 for w, share in zip(weights, shares, strict=True))
        between = Z_95 * math.sqrt(spread / total)
    low, high = estimate - math.hypot(estimate - low, between), estimate + math.hypot(high - estimate, between)
    return Corrected(estimate, Interval(max(0.0, low), min(1.0, high)))


def corrected_mean(
    labels: Sequence[float],
    judged: Sequence[float],
    unlabelled: Sequence[float],
    *,
    scale: tuple[float, float] | None = None,
    end_labels: float = 0.25,
    finite: bool = False,
) -> Corrected | None:
    """PPI++ (Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453) with Student's t, for labels drawn at random.

    λ·mean(unlabelled) + mean(labels − λ·judged), where λ minimises the variance. Skewed labels make intervals too
    narrow, because few labels show no bad answer. So a part of a label at each end of the scale counts in the width,
    not in the estimate.

    Args:
        labels: people's, of the labelled rows.
        judged: the judge's verdicts on the same rows.
        unlabelled: its verdicts on the other rows.
        scale: the lowest and the highest label that is possible; None leaves the ends out.
        end_labels: how much of a label is added at each end.
        finite: the interval is that of these rows alone, as if no others existed. λ is the slope of the labels, and
            only what it leaves of the labels, times 1 − n/N, is uncertain.

    Returns:
        None without a label. No interval for fewer than three labels.

    Raises:
        ValueError: a labelled row has no verdict.
    """
    y, f, others = (np.asarray(values, np.float64) for values in (labels, judged, unlabelled))
    if len(y) != len(f):
        raise ValueError(f"{len(y)} labels and {len(f)} verdicts on the same rows")
    if not len(y):
        return None
    tuning = _tuning(y, f, others)
    share = len(others) / (len(y) + len(others))
    # The same estimate: of the rows without a label, λ/(1 − n/N) of the verdict is expected.
    rest = y - (tuning / share if finite and share else tuning) * f
    estimate = float(y.mean() + (tuning * (others.mean() - f.mean()) if len(others) else 0.0))
    n = len(y)
    if n < 3:
        return Corrected(estimate, None, tuning)
    squares, count = float(((rest - rest.mean()) ** 2).sum()), float(n)
    if scale is not None:
        squares += end_labels * math.fsum((end - float(y.mean())) ** 2 for end in scale)
        count += 2 * end_labels
    variance = squares / (count - 2) / n  # One for the mean, one for λ.
    if finite:
        variance *= share
    elif len(others) > 1:
        variance += tuning**2 * float(others.var(ddof=1)) / len(others)
    interval = t_interval(estimate, math.sqrt(variance), n - 2)
    return Corrected(estimate, _within(interval, scale), tuning)


def corrected_difference(
    labels: tuple[Sequence[float], Sequence[float]],
    judged: tuple[Sequence[float], Sequence[float]],
    unlabelled: tuple[Sequence[float], Sequence[float]],
    *,
    scale: tuple[float, float],
) -> Corrected | None:
    """The mean of a − b for two models under one judge: `corrected_mean` of the differences row by row.

    What the judge adds to both models cancels. Half a label at each end, −(high − low) and high − low, counts in the
    width.

    Args:
        labels, judged, unlabelled: as in `corrected_mean`, of model a and of model b, each in the same rows.
        scale: of one answer's label.
    """
    pairs = [np.asarray(a, np.float64) - np.asarray(b, np.float64) for a, b in (labels, judged, unlabelled)]
    reach = scale[1] - scale[0]
    return corrected_mean(*(pair.tolist() for pair in pairs), scale=(-reach, reach), end_labels=0.5)


def labels_to_decide(labels: Sequence[float], judged: Sequence[float], unlabelled: Sequence[float]) -> int | None:
    """How many labels in all would make a mean differ from 0, if the estimate and the spread stay as they are.

    (z·s)²·(1 − r²) / (m² − (z·s·r)²/N), from the variance s²·(1 − r²·(N − n)/N)/n of PPI++ with n labels, where m is
    the corrected mean, s the standard deviation of labels and r their correlation with the verdicts.

    Args:
        labels, judged, unlabelled: as in `corrected_mean`; for two runs, the differences row by row.

    Returns:
        At least `LEAST_LABELS`. None where labels of all rows would not decide, and for fewer than three labels.
    """
    now = corrected_mean(labels, judged, unlabelled)
    y, f = np.asarray(labels, np.float64), np.asarray(judged, np.float64)
    if now is None or now.interval is None:
        return None
    spread = Z_95 * float(y.std(ddof=1))
    shared = float(np.corrcoef(y, f)[0, 1]) ** 2 if y.std() and f.std() else 0.0
    left = now.estimate**2 - spread**2 * shared / (len(y) + len(unlabelled))
    if left <= 0:
        return None
    needed = max(LEAST_LABELS, math.ceil(spread**2 * (1 - shared) / left))
    return needed if needed <= len(y) + len(unlabelled) else None


def corrected_clusters(
    labels: Sequence[float],
    judged: Sequence[float],
    clusters: Sequence[object],
    unlabelled: Sequence[float],
    unlabelled_clusters: Sequence[object],
    *,
    scale: tuple[float, float],
    end_labels: float = 0.25,
    finite: bool = False,
) -> Corrected | None:
    """`corrected_mean` of clusters, for labels of all rows of clusters that were drawn at random.

    Each cluster counts with its sum over the mean size of clusters, so that every row has the same weight.

    Args:
        labels, judged: of the labelled rows.
        clusters: the cluster of each labelled row.
        unlabelled: verdicts on rows of the other clusters.
        unlabelled_clusters: the cluster of each of these.
        scale: the lowest and the highest label that is possible.
        end_labels: how much of a label is added at each end.
        finite: as in `corrected_mean`.

    Returns:
        None without a label. No interval for fewer than `LEAST_CLUSTERS` labelled clusters.
    """
    names = {*clusters, *unlabelled_clusters}
    if not names:
        return None
    size = (len(clusters) + len(unlabelled_clusters)) / len(names)
    sums = [_sums(labels, clusters), _sums(judged, clusters), _sums(unlabelled, unlabelled_clusters)]
    means = ([total / size for total in each] for each in sums)
    result = corrected_mean(*means, scale=scale, end_labels=end_labels, finite=finite)
    if result is None or len(sums[0]) >= LEAST_CLUSTERS:
        return result
    return Corrected(result.estimate, None, result.tuning)


def _sums(values: Sequence[float], clusters: Sequence[object]) -> list[float]:
    parts: dict[object, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        parts.setdefault(cluster, []).append(value)
    return [math.fsum(part) for part in parts.values()]


def _wilson(stratum: Stratum, finite: bool) -> Interval:
    share, n = stratum.right / stratum.labelled, float(stratum.labelled)
    if stratum.labelled > stratum.rows:
        raise ValueError(f"{stratum.labelled} labels of {stratum.rows} rows")
    if finite and stratum.labelled == stratum.rows:
        return Interval(share, share)
    if finite:
        n /= 1 - n / stratum.rows
    interval = wilson_interval(share * n, n)
    assert interval is not None
    return interval


def _tuning(y: _Floats, f: _Floats, others: _Floats) -> float:
    """λ of PPI++: cov(Y, f) / ((1 + n/N)·var f), within 0..1; 0 where the verdicts do not vary."""
    if not len(others):
        return 0.0
    variance = float(np.concatenate([f, others]).var(ddof=1))
    if not variance:
        return 0.0
    covariance = float(((y - y.mean()) * (f - f.mean())).mean())
    return min(1.0, max(0.0, covariance / ((1 + len(y) / len(others)) * variance)))


def _within(interval: Interval | None, scale: tuple[float, float] | None) -> Interval | None:
    if interval is None or scale is None:
        return interval
    return Interval(max(scale[0], interval.low), min(scale[1], interval.high))
