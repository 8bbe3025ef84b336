"""Means of weighted and of clustered values.

Values of one cluster (questions on one passage, variants of one problem) carry less information than independent
ones. The estimators are those of survey sampling, linearised: Cochran (1977), §6.4 for ratios, and Liang &
Zeger (1986) for clusters, with the factor C/(C−1). Without weights and with one value in each cluster they equal
`mean_stderr`.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from gage_eval.stats.intervals import Interval, MeanStderr, floats, rescaled, scale_of, t_quantile, wilson_interval


def clustered_stderr(
    values: Sequence[float] | npt.NDArray[np.float64],
    clusters: Sequence[object] | npt.NDArray[np.int64],
    weights: Sequence[float] | npt.NDArray[np.float64] | None = None,
) -> float | None:
    """√(C/(C−1) · Σ_c (Σ_{i∈c} w_i·(x_i−x̄))²) / Σw, of the (weighted) mean x̄; values of weight 0 do not count.

    Args:
        values: one value per sample.
        clusters: the cluster of each value, any hashable.
        weights: one weight per value, 1 by default; not all 0.

    Returns:
        None for fewer than two clusters: their spread is unknown, which is not 0.

    Raises:
        ValueError: the lengths differ, a cluster id is None or NaN, or a weight is negative or not finite.
    """
    xs, ids = _floats(values), clusters.tolist() if isinstance(clusters, np.ndarray) else list(clusters)
    if len(xs) != len(ids):
        raise ValueError(f"{len(xs)} values and {len(ids)} cluster ids")
    if any(cluster is None or cluster != cluster for cluster in ids):
        raise ValueError("a cluster id is missing")
    ws = _weights(weights, len(xs))
    if (scale := scale_of(np.asarray(values, np.float64))) != 1:
        return rescaled(MeanStderr(None, _linearised([x / scale for x in xs], ws, ids)), scale).stderr
    return _linearised(xs, ws, ids)


def weighted_mean_stderr(
    values: Sequence[float] | npt.NDArray[np.float64], weights: Sequence[float] | npt.NDArray[np.float64]
) -> MeanStderr:
    """Σwx/Σw and its standard error √(n/(n−1) · Σ w²(x−x̄)²) / Σw; values of weight 0 do not count.

    Returns:
        (None, None) when no value has weight; no error for fewer than two values.

    Raises:
        ValueError: the lengths differ, or a weight is negative or not finite.
    """
    xs = _floats(values)
    ws = _weights(weights, len(xs))
    total = math.fsum(ws)
    if not total:
        return MeanStderr(None, None)
    if (scale := scale_of(np.asarray(values, np.float64))) != 1:
        return rescaled(weighted_mean_stderr([x / scale for x in xs], ws), scale)
    mean = math.fsum(w * x for w, x in zip(ws, xs, strict=True)) / total
    return MeanStderr(mean, _linearised(xs, ws, range(len(xs))))


def ratio_stderr(
    tops: Sequence[float] | npt.NDArray[np.float64], bottoms: Sequence[float] | npt.NDArray[np.float64]
) -> MeanStderr:
    """A ratio of sums R = Σa/Σb and its standard error √(n/(n−1) · Σ(a−R·b)²) / Σb.

    Args:
        tops: what each sample (or cluster) adds to the numerator.
        bottoms: what it adds to the denominator.

    Returns:
        (None, None) when the sum of the denominators is not positive; no error for fewer than two.

    Raises:
        ValueError: the lengths differ.
    """
    above, below = np.asarray(tops, np.float64), np.asarray(bottoms, np.float64)
    if len(above) != len(below):
        raise ValueError(f"{len(above)} numerators and {len(below)} denominators")
    if (scale := scale_of(above)) != 1:
        return rescaled(ratio_stderr(above / scale, below), scale)
    total, n = math.fsum(floats(below)), len(below)
    if not total > 0:
        return MeanStderr(None, None)
    value = math.fsum(floats(above)) / total
    if n < 2:
        return MeanStderr(value, None)
    squares = math.fsum((a - value * b) ** 2 for a, b in zip(floats(above), floats(below), strict=True))
    return MeanStderr(value, math.sqrt(n / (n - 1) * squares) / total)


def clustered_wilson_interval(mean: float, stderr: float | None, n: int, clusters: int) -> Interval | None:
    """Wilson's 95 % interval for a share with a clustered standard error.

    The number of values is the effective one, x̄(1−x̄)/stderr², at most n, and Student's quantile with C−1 degrees of
    freedom replaces the normal one (Korn & Graubard 1998, on survey proportions).

    Args:
        mean: the share, 0..1.
        stderr: its clustered standard error.
        n: number of values.
        clusters: number of clusters.

    Returns:
        None for fewer than two clusters.
    """
    if stderr is None or clusters < 2:
        return None
    effective = float(n)
    if stderr > 0:
        effective = min(effective, mean * (1 - mean) / stderr**2)
    if effective <= 0:
        effective = float(n)
    return wilson_interval(mean * effective, effective, z=t_quantile(0.975, clusters - 1))


def _linearised(xs: Sequence[float], ws: Sequence[float], clusters: Iterable[object]) -> float | None:
    total = math.fsum(ws)
    if not total:
        return None
    mean = math.fsum(w * x for w, x in zip(ws, xs, strict=True)) / total
    parts: dict[object, list[float]] = {}
    for x, w, cluster in zip(xs, ws, clusters, strict=True):
        if w:
            parts.setdefault(cluster, []).append(w * (x - mean))
    count = len(parts)
    if count < 2:
        return None
    return math.sqrt(count / (count - 1) * math.fsum(math.fsum(part) ** 2 for part in parts.values())) / total


def _floats(values: Sequence[float] | npt.NDArray[np.float64]) -> list[float]:
    return values.tolist() if isinstance(values, np.ndarray) else [float(value) for value in values]


def _weights(weights: Sequence[float] | npt.NDArray[np.float64] | None, n: int) -> list[float]:
    if weights is None:
        return [1.0] * n
    ws = _floats(weights)
    if len(ws) != n:
        raise ValueError(f"{n} values and {len(ws)} weights")
    bad = next((w for w in ws if not (w >= 0 and math.isfinite(w))), None)
    if bad is not None:
        raise ValueError(f"a weight is {bad}: weights are finite and not negative")
    return ws
