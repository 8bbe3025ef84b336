"""The scores of a suite's runs over time."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from gage_eval.regression.baselines import BaselineEntry
from gage_eval.runs.options import Locations
from gage_eval.runs.stored import stored_runs

_WIDTH = 41


@dataclass(frozen=True)
class TrendPoint:
    """A task's first number in one run.

    Attributes:
        value, low, high: the number with its 95 % interval; None where unknown.
        bar: the interval (─) and the value (●) of 0..1 as text; empty for other numbers.
    """

    created: datetime
    run_id: str
    task_id: str
    metric: str
    value: float | None
    low: float | None
    high: float | None

    @property
    def bar(self) -> str:
        """The interval and the value between 0 and 1, as text."""
        if self.value is None or not 0 <= self.value <= 1:
            return ""
        low, high = (self.value if end is None else min(1.0, max(0.0, end)) for end in (self.low, self.high))
        first, place, last = (round(x * (_WIDTH - 1)) for x in (low, self.value, high))
        line = [" "] * _WIDTH
        line[first : last + 1] = "─" * (last - first + 1)
        line[place] = "●"
        return f"│{''.join(line)}│"

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "created": self.created.isoformat()}


def trend(
    locations: Locations, entry: BaselineEntry, counts: Callable[[str], bool] = lambda run_id: True
) -> list[TrendPoint]:
    """All completed runs of the entry's suite, oldest first; one point per task.

    Args:
        locations: where the runs are.
        entry: of the baseline.
        counts: says which runs to take, by their names.
    """
    points = [point for point in _points(locations, entry, counts) if point.task_id in entry.runs[0].tasks]
    return sorted(points, key=lambda point: (point.task_id, point.created))


def _points(locations: Locations, entry: BaselineEntry, counts: Callable[[str], bool]) -> Iterator[TrendPoint]:
    for stored in stored_runs(locations):
        if not counts(stored.run_id):
            continue
        record = stored.record
        if record.name != entry.suite or record.status != "completed":
            continue
        for task in stored.summary.tasks:
            if task.metrics:
                one = task.metrics[0]
                yield TrendPoint(
                    record.created, stored.run_id, task.task_id, one.name, one.value, one.ci_low, one.ci_high
                )
