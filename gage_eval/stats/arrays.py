"""Scores from anywhere: plain arrays, or two frames whose rows belong together by an id."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gage_eval.stats.clusters import clustered_stderr, clustered_wilson_interval, weighted_mean_stderr
from gage_eval.stats.evidence import Evidence, Floats, PairedRows, evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.intervals import Interval, mean_stderr, t_interval, wilson_interval
from gage_eval.stats.verdicts import MetricVerdict, decide

Scores: TypeAlias = Sequence[float] | npt.NDArray[Any]
Frame: TypeAlias = Any
"""A frame of pandas or polars, a table of Arrow, a mapping of columns, or a list of records."""


@dataclass(frozen=True)
class ScoreInterval:
    """A mean with its 95 % interval.

    Attributes:
        n: values.
        mean: None without a value.
        stderr: of the mean; None where it is unknown.
        interval: Wilson's for 0/1 values, else Student's; None where it is unknown.
    """

    n: int
    mean: float | None
    stderr: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class PairedScores:
    """The scores of two frames, paired by id.

    Attributes:
        ids: of the samples that both have scored, in the order of the current frame.
        rows: their scores.
        unpaired: ids that only one frame has, or only one has scored.
    """

    ids: list[Hashable]
    rows: PairedRows
    unpaired: int

    @property
    def unpaired_share(self) -> float:
        """Share of ids without a partner."""
        samples = len(self.ids) + self.unpaired
        return self.unpaired / samples if samples else 0.0

    @property
    def changed(self) -> tuple[list[Hashable], list[Hashable]]:
        """The ids that became better, and those that became worse, the largest change first."""
        change = self.rows.differences
        order = np.argsort(-np.abs(change), kind="stable").tolist()
        return [self.ids[i] for i in order if change[i] > 0], [self.ids[i] for i in order if change[i] < 0]


def score_interval(
    scores: Scores, *, clusters: Sequence[object] | None = None, weights: Scores | None = None
) -> ScoreInterval:
    """A mean with its 95 % interval.

    Args:
        scores: one number per sample. 0/1 values without weights get Wilson's interval.
        clusters: the cluster of each sample (a document, a user), where samples of one cluster depend on each other.
        weights: of each sample.

    Raises:
        ValueError: the lengths differ, or a number is not finite.
    """
    values = _finite(scores)
    n = len(values)
    by_weight = None if weights is None else _finite(weights)
    mean, stderr = mean_stderr(values) if by_weight is None else weighted_mean_stderr(values, by_weight)
    groups = None if clusters is None else list(clusters)
    if groups is not None:
        stderr = clustered_stderr(values, groups, by_weight)
    if mean is None:
        return ScoreInterval(n, None)
    interval = t_interval(mean, stderr, (n if groups is None else len(set(groups))) - 1)
    if by_weight is None and _is_binary(values):
        if groups is None:
            interval = wilson_interval(float(values.sum()), n)
        else:
            interval = clustered_wilson_interval(mean, stderr, n, len(set(groups)))
    return ScoreInterval(n, mean, stderr, interval)


def paired_rows(
    baseline: Scores,
    current: Scores,
    *,
    clusters: Sequence[Any] | None = None,
    weights: Scores | None = None,
    higher_is_better: bool = True,
) -> PairedRows:
    """The scores of the same samples in two runs.

    Args:
        baseline: one number per sample, or one row per repeat of the baseline.
        current: one number per sample, in the same order.
        clusters, weights: of each sample.
        higher_is_better: whether a larger number is a better one.

    Raises:
        ValueError: the lengths differ, or a number is not finite.
    """
    now, before = _finite(current), np.atleast_2d(_finite(baseline))
    codes = None if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1].astype(np.int64)
    by_weight = None if weights is None else _finite(weights)
    if any(values is not None and len(values) != len(now) for values in (codes, by_weight)):
        raise ValueError("there is one cluster and one weight for each sample")
    return PairedRows(now, before, codes, _is_binary(now) and _is_binary(before), higher_is_better, by_weight)


def compare(baseline: Scores, current: Scores, *, alpha: float = 0.025, **how: Any) -> Evidence:
    """Compare two runs on the same samples.

    Args:
        baseline, current: as in `paired_rows`.
        alpha: level of each one-sided bound; 0.025 makes a 95 % interval of ``low`` and ``high``.
        how: ``clusters``, ``weights`` and ``higher_is_better``, as in `paired_rows`.

    Raises:
        ValueError: the lengths differ, or a number is not finite.
    """
    return evidence(paired_rows(baseline, current, **how), alpha=alpha)


def gate(baseline: Scores, current: Scores, rule: GateRule | None = None, **how: Any) -> MetricVerdict:
    """Decide whether the current run is worse than the baseline: by more than the tolerance and more than chance.

    Args:
        baseline, current: as in `paired_rows`.
        rule: tolerance and level.
        how: ``clusters``, ``weights`` and ``higher_is_better``, as in `paired_rows`.

    Raises:
        ValueError: the lengths differ, or a number is not finite.
    """
    rule = rule or GateRule()
    return decide({"score": compare(baseline, current, alpha=rule.alpha, **how)}, rule)["score"]


def pair(
    baseline: Frame,
    current: Frame,
    *,
    by: str = "id",
    score: str = "score",
    cluster: str | None = None,
    higher_is_better: bool = True,
) -> PairedScores:
    """Pair two frames by id. Rows of one id are replicates, whose mean counts.

    Args:
        baseline, current: the frames.
        by: column of the ids.
        score: column of the numbers; a row without one is not scored.
        cluster: column of the clusters, read from the current frame.
        higher_is_better: whether a larger number is a better one.

    Raises:
        KeyError: a frame has no such column.
        ValueError: a number is infinite.
    """
    before, now = _means(baseline, by, score), _means(current, by, score)
    ids = [name for name in now if name in before and now[name][1] and before[name][1]]
    rows = paired_rows([before[name][0] for name in ids], [now[name][0] for name in ids])
    single = all(table[name][1] == 1 for table in (before, now) for name in ids)
    codes = None
    if cluster is not None:
        of_id = dict(zip(_column(current, by), _column(current, cluster), strict=True))
        numbers: dict[Any, int] = {}
        codes = np.array([numbers.setdefault(of_id[name], len(numbers)) for name in ids], np.int64)
    rows = PairedRows(rows.current, rows.baseline, codes, rows.binary and single, higher_is_better)
    return PairedScores(ids, rows, len(before.keys() | now.keys()) - len(ids))


def _means(frame: Frame, by: str, score: str) -> dict[Any, tuple[float, int]]:
    """The mean and the number of the scores of each id."""
    sums: dict[Any, tuple[float, int]] = {}
    for name, value in zip(_column(frame, by), _column(frame, score), strict=True):
        total, count = sums.get(name, (0.0, 0))
        known = value is not None and value == value
        sums[name] = (total + float(value), count + 1) if known else (total, count)
    return {name: (total / count if count else math.nan, count) for name, (total, count) in sums.items()}


def _column(frame: Frame, name: str) -> list[Any]:
    if isinstance(frame, Sequence):
        return [record[name] for record in frame]
    column = frame[name]
    convert = getattr(column, "to_pylist", None) or getattr(column, "tolist", None)
    return list(column) if convert is None else list(convert())


def _finite(values: Scores) -> Floats:
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("a score is missing or infinite; leave the sample out of both runs")
    return numbers


def _is_binary(values: Floats) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())
