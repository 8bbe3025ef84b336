"""Looks at a task that stops early: which rows the next one has, and what is known after the last one.

A look is the stages on the first k rows of one shuffle. Whether another one follows is a pure function of the scores of
a look, and in no key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.config.stopping import StopConfig
from gage_eval.report.metric_names import metric_name
from gage_eval.report.stopped import Stopped
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.stats.early_stop import limits_by_look, look_sizes
from gage_eval.store import Artifact

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StopRule:
    """When a task has enough rows.

    Attributes:
        metric_id, filter, value_key: the number that is looked at.
        low, high: the ends of its scale.
        half_width: what is enough, in units of the number.
    """

    metric_id: str
    filter: str | None
    value_key: str
    low: float
    high: float
    half_width: float

    @property
    def text(self) -> str:
        """In a few words: ``± 0.02 of exact_match``."""
        return f"± {self.half_width:g} of {self._number}"

    @property
    def _number(self) -> str:
        return metric_name(self.metric_id, self.filter, self.value_key, "mean")

    def material(self) -> JsonValue:
        return {
            "metric": [self.metric_id, self.filter, self.value_key],
            "scale": [self.low, self.high],
            "half_width": self.half_width,
        }

    def next_look(self, look: int, samples: Artifact, scores: Artifact) -> int | None:
        """The rows of the next look; None where this one is the last.

        Args:
            look: rows of the shuffle in this look.
            samples: all samples of the task.
            scores: of the metric, of this look.
        """
        known = self.stopped(look, samples, scores)
        if known.samples == known.total or (known.high - known.low) / 2 <= self.half_width:
            return None
        return next(rows for rows in look_sizes() if rows > look)

    def stopped(self, look: int | None, samples: Artifact, scores: Artifact) -> Stopped:
        """What is known of the score of all samples after a look; None is a look at all of them."""
        rows = np.concatenate([*_row_indexes(samples), np.empty(0, np.int64)])
        looked_at = rows if look is None else rows[rows < look]
        values = (self._values(scores, looked_at) - self.low) / (self.high - self.low)
        ends = looks_up_to(int(rows.max(initial=0)) + 1 if look is None else look)
        reach = self.half_width / (self.high - self.low)
        limits = limits_by_look(values, len(rows), [int(np.searchsorted(looked_at, end)) for end in ends], reach)
        low, high = (self.low + end * (self.high - self.low) for end in limits[-1])
        return Stopped(
            number=self._number,
            samples=len(looked_at),
            total=len(rows),
            looks=len(ends),
            unscored=int(np.isnan(values).sum()),
            half_width=self.half_width,
            low=low,
            high=high,
        )

    def _values(self, scores: Artifact, rows: npt.NDArray[np.int64]) -> Floats:
        """The mean of each row's replicates; NaN for a row without a score."""
        sums, counts = np.zeros(len(rows)), np.zeros(len(rows))
        for table in scores.tables(columns=["row_index", "filter", "status", "values"]):
            own = pc.is_null(table["filter"]) if self.filter is None else pc.equal(table["filter"], self.filter)
            table = table.filter(
                pc.and_(pc.fill_null(own, fill_value=False), pc.not_equal(table["status"], "unscored"))
            )
            values = pc.map_lookup(table["values"].combine_chunks(), pa.scalar(self.value_key), "first")
            numbers = pc.fill_null(values, float("nan")).to_numpy(zero_copy_only=False).astype(np.float64)
            known = ~np.isnan(numbers)
            places = np.searchsorted(rows, table["row_index"].to_numpy()[known])
            np.add.at(sums, places, numbers[known])
            np.add.at(counts, places, 1)
        means: Floats = np.divide(sums, counts, out=np.full(len(rows), np.nan), where=counts > 0)
        return means


def scores_of(metrics: Artifact, metric_id: str) -> str:
    """The artifact id of a metric's scores, as the metrics table names it."""
    rows = metrics.table(["metric_id", "scores"]).to_pylist()
    return next(str(row["scores"]) for row in rows if row["metric_id"] == metric_id)


def _row_indexes(samples: Artifact) -> Iterator[npt.NDArray[np.int64]]:
    for table in samples.tables(columns=["row_index"]):
        yield table["row_index"].to_numpy()


def looks_up_to(rows: int) -> list[int]:
    """The looks before, and one that ends at ``rows``."""
    return [*takewhile(lambda size: size < rows, look_sizes()), rows]


def stop_rule(config: StopConfig | None, task_id: str, metrics: Sequence[BoundMetric]) -> StopRule | None:
    """When a task has enough rows; None where all rows are asked.

    Raises:
        InputError: there is no such metric, or its number is not a mean of values in a fixed range.
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
    return StopRule(metric.metric_id, metric.filters[0].name, key, scale.low, scale.high, config.half_width)
