"""The same answers scored by two metrics: the answers on which they disagree, with the texts that each read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gage_eval.base.errors import InputError
from gage_eval.regression.compare import shared_tasks
from gage_eval.runs.results.explain import ExplainedAnswer, explain
from gage_eval.runs.results.outcomes import Measure, RowFilter
from gage_eval.runs.results.reading import RunReader, TaskReader

# Smaller differences come from rounding in a log.
_SAME = 1e-6


@dataclass(frozen=True)
class Disagreement:
    """An answer with both scores; None where one gave none."""

    sample_id: str
    replicate: int
    theirs: float | None
    ours: float | None


@dataclass(frozen=True)
class ScoredTwice:
    """A task whose answers two metrics scored.

    Attributes:
        task: with the second metric.
        measures: both.
        answers: how many both tables have.
        disagreements: in the order of the rows.
    """

    task: TaskReader
    measures: tuple[Measure, Measure]
    answers: int
    disagreements: list[Disagreement]

    def explained(self, limit: int) -> list[tuple[Disagreement, ExplainedAnswer]]:
        """The first disagreements, each with what the second metric read."""
        shown = {(own.sample_id, own.replicate): own for own in self.disagreements[:limit]}
        where = RowFilter(ids=tuple(dict.fromkeys(sample_id for sample_id, _ in shown)))
        return [
            (shown[key], explain(row, response, self.measures[1]))
            for row in (self.task.rows(where) if shown else ())
            for response in row.responses
            if (key := (row.sample_id, response["replicate"])) in shown
        ]

    def as_record(self, limit: int) -> Mapping[str, Any]:
        """The task as JSON."""
        return {
            "task_id": self.task.task_id,
            "metrics": [measure.name for measure in self.measures],
            "answers": self.answers,
            "disagreements": len(self.disagreements),
            "shown": [{**vars(answer), **vars(disagreement)} for disagreement, answer in self.explained(limit)],
        }


def scored_twice(
    theirs: RunReader, ours: RunReader, *, task_id: str | None = None, metric: str | None = None
) -> list[ScoredTwice]:
    """Compare two scores of the same answers, task by task.

    Args:
        theirs: the run whose first metric is the one side, such as that of an imported log.
        ours: the run whose metric is the other side; may be the same run.
        task_id: only this task.
        metric: of the second run; its first that is not the one side by default.

    Raises:
        InputError: the runs share no task, have other answers, or have no second metric.
    """
    return [_compared(theirs.task(name), ours.task(name), metric) for name in shared_tasks(theirs, ours, task_id)]


def _compared(theirs: TaskReader, ours: TaskReader, metric: str | None) -> ScoredTwice:
    first = theirs.measure()
    others = [measure for measure in ours.measures if measure != first]
    if metric is None and not others:
        raise InputError(
            f"task '{ours.task_id}' has only the metric '{first.name}': score it with another one first, with "
            "gage score RUN --metric NAME --save."
        )
    second = others[0] if metric is None else ours.measure(metric)
    if not _texts(theirs).equals(_texts(ours)):
        raise InputError(f"task '{ours.task_id}' has other answers in the second run; --scores compares the same ones.")
    values = ours.values(second).join(theirs.values(first), ["sample_id", "replicate"], right_suffix="_theirs")
    differing = [
        Disagreement(row["sample_id"], row["replicate"], row["value_theirs"], row["value"])
        for row in values.sort_by("at").to_pylist()
        if not _same(row["value_theirs"], row["value"])
    ]
    return ScoredTwice(ours, (first, second), values.num_rows, differing)


def _same(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else abs(a - b) <= _SAME


def _texts(task: TaskReader) -> pa.Table:
    table = task.response_table().select(["sample_id", "replicate", "answer"])
    return table.sort_by([("sample_id", "ascending"), ("replicate", "ascending")])
