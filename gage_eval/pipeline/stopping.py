"""Looks at a task that stops early: which rows the next one has, and what is known after the last one.

A look is the stages on the first k rows of one shuffle. Whether another one follows is a pure function of the scores of
a look, and in no key.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.config.stopping import StopConfig
from gage_eval.report.metric_names import metric_name
from gage_eval.report.stopped import Stopped
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.rows import rows_of_filter, values_of
from gage_eval.stats.early_stop import difference_limits_by_look, limits_by_look, look_sizes, looks_up_to
from gage_eval.store import Artifact, Store

# Baseline, task and metric → the artifact of the scores in each of its repeats.
BaselineOf: TypeAlias = Callable[[str, str, str], tuple[str, ...]]


@dataclass(frozen=True)
class Decided:
    """A baseline, and the loss against it that is accepted.

    Attributes:
        baseline: its name.
        scores: the artifact of the metric's scores in each repeat.
        tolerance: in units of the number.
    """

    baseline: str
    scores: tuple[str, ...]
    tolerance: float

    def before(self, store: Store, rule: "StopRule") -> dict[str, float]:
        """The mean score of each sample in the baseline."""
        repeats = (_means(rule.values_of(store.artifact(name))) for name in self.scores)
        return _means(pair for repeat in repeats for pair in repeat.items())


@dataclass(frozen=True)
class StopRule:
    """When a task has enough rows.

    Attributes:
        metric_id, filter, value_key: the number that is looked at.
        low, high: the ends of its scale.
        higher_is_better: whether a loss is a smaller number.
        half_width: what is enough, in units of the number.
        decided: the baseline that must be decided against, instead.
    """

    metric_id: str
    filter: str | None
    value_key: str
    low: float
    high: float
    higher_is_better: bool = True
    half_width: float | None = None
    decided: Decided | None = None

    @property
    def text(self) -> str:
        """In a few words: ``± 0.02 of exact_match``."""
        if self.decided is not None:
            return f"a verdict on {self._number} against baseline {self.decided.baseline}"
        return f"± {self.half_width:g} of {self._number}"

    @property
    def _number(self) -> str:
        return metric_name(self.metric_id, self.filter, self.value_key, "mean")

    def material(self) -> JsonValue:
        return {
            "metric": [self.metric_id, self.filter, self.value_key],
            "scale": [self.low, self.high],
            "half_width": self.half_width,
            "decided": None if self.decided is None else [self.decided.tolerance, *self.decided.scores],
        }

    def next_look(self, look: int, samples: Artifact, scores: Artifact, store: Store) -> int | None:
        """The rows of the next look; None where this one is the last.

        Args:
            look: rows of the shuffle in this look.
            samples: all samples of the task.
            scores: of the metric, of this look.
            store: where the baseline is.
        """
        known = self.stopped(look, samples, scores, store)
        if known.samples == known.total or self._is_enough(known):
            return None
        return next(rows for rows in look_sizes() if rows > look)

    def stopped(self, look: int | None, samples: Artifact, scores: Artifact, store: Store) -> Stopped:
        """What is known of the score of all samples after a look; None is a look at all of them."""
        ids, rows = _ids_and_rows(samples)
        count = len(rows) if look is None else int(np.searchsorted(rows, look))
        now = _means(self.values_of(scores))
        values = np.array([now.get(name, math.nan) for name in ids[:count]], np.float64)
        width = self.high - self.low
        ends = looks_up_to(int(rows.max(initial=0)) + 1 if look is None else look)
        sizes = [int(np.searchsorted(rows, end)) for end in ends]
        if self.decided is None:
            aim = (self.half_width or 0.0) / width
            limits = limits_by_look((values - self.low) / width, len(rows), sizes, aim)[-1]
            low, high = (self.low + limit * width for limit in limits)
        else:
            before = self.decided.before(store, self)
            values -= np.array([before.get(name, math.nan) for name in ids[:count]], np.float64)
            values *= 1 if self.higher_is_better else -1
            low, high = difference_limits_by_look(values, width, len(rows), sizes, self.decided.tolerance)[-1]
        return Stopped(
            number=self._number,
            samples=count,
            total=len(rows),
            looks=len(ends),
            unscored=int(np.isnan(values).sum()),
            half_width=self.half_width,
            baseline=None if self.decided is None else self.decided.baseline,
            low=low,
            high=high,
        )

    def values_of(self, scores: Artifact) -> Iterator[tuple[str, float]]:
        """The sample and the value of each answer that is scored."""
        for part in scores.tables(columns=["sample_id", "filter", "status", "values"]):
            table = rows_of_filter(part, self.filter)
            table = table.filter(pc.not_equal(table["status"], "unscored"))
            values = values_of(table, self.value_key).to_pylist()
            for sample_id, value in zip(table["sample_id"].to_pylist(), values, strict=True):
                if value is not None and not math.isnan(value):
                    yield sample_id, value

    def _is_enough(self, known: Stopped) -> bool:
        if self.decided is not None:
            return known.low > -self.decided.tolerance or known.high < -self.decided.tolerance
        return (known.high - known.low) / 2 <= (self.half_width or 0.0)


def _means(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The mean of each sample's replicates."""
    by_sample: dict[str, list[float]] = {}
    for sample_id, value in values:
        by_sample.setdefault(sample_id, []).append(value)
    return {sample_id: math.fsum(own) / len(own) for sample_id, own in by_sample.items()}


def _ids_and_rows(samples: Artifact) -> tuple[list[str], npt.NDArray[np.int64]]:
    table = samples.table(columns=["id", "row_index"])
    return table["id"].to_pylist(), table["row_index"].to_numpy()


def scores_of(metrics: Artifact, metric_id: str) -> str:
    """The artifact id of a metric's scores, as the metrics table names it."""
    rows = metrics.table(["metric_id", "scores"]).to_pylist()
    return next(str(row["scores"]) for row in rows if row["metric_id"] == metric_id)


def stop_rule(
    config: StopConfig | None, task_id: str, metrics: Sequence[BoundMetric], baseline_of: BaselineOf | None
) -> StopRule | None:
    """When a task has enough rows; None where all rows are asked.

    Args:
        config: the section.
        task_id: of the task.
        metrics: the task's.
        baseline_of: finds the scores of a baseline; None where there is no store to look at.

    Raises:
        InputError: there is no such metric or baseline, or the number is not a mean of values in a fixed range.
    """
    if config is None:
        return None
    place = f"task '{task_id}', stop_when"
    metric = next((known for known in metrics if config.metric in (None, known.metric_id)), None)
    if metric is None:
        names = ", ".join(known.metric_id for known in metrics) or "there is none"
        raise InputError(f"{place}: no metric '{config.metric}'. Metrics: {names}.")
    key = metric.value_keys[0]
    scale = metric.scale(key)
    if scale.low is None or scale.high is None:
        raise InputError(f"{place}: metric '{metric.metric_id}' has no fixed range of values; name one that has.")
    if metric.grouping.weight is not None:
        raise InputError(f"{place}: metric '{metric.metric_id}' has weights, and only plain means can stop early.")
    own = (metric.metric_id, metric.filters[0].name, key, scale.low, scale.high, scale.higher_is_better is not False)
    if config.decided is None:
        return StopRule(*own, config.half_width)
    if scale.higher_is_better is None:
        raise InputError(f"{place}: metric '{metric.metric_id}' does not say which values are better.")
    if baseline_of is None:
        raise InputError(f"{place}: a baseline is read where there is a store.")
    name = config.decided.baseline
    try:
        scores = baseline_of(name, task_id, metric.metric_id)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    return StopRule(*own, decided=Decided(name, scores, config.decided.tolerance))
