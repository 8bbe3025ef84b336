"""Rows of a stored run: one sample with all its stored data, made from tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import decode
from gage_eval.base.statuses import RULE
from gage_eval.report.metric_names import metric_name
from gage_eval.runs.results.calls import PendingResponses
from gage_eval.runs.results.outcomes import Measure
from gage_eval.store import Artifact

Scores = dict[str, list[dict[str, Any]]]
"""Score rows of a sample by metric id, each as `score_entry` gives it."""

_OF_ROW = frozenset({"row_index", "sample_id"})
_JSON_COLUMNS = ("tool_calls", "parsed")


@dataclass(frozen=True)
class SampleRow:
    """One sample of a task with all its stored data.

    Attributes:
        task_id: the task.
        part: the part of the dataset that holds it.
        row_index: index of its record in the dataset, from 0.
        sample_id: id of the sample.
        sample: the sample in canonical form.
        responses, telemetry, judgments: rows of those tables by replicate, without nulls; may be empty.
        scores: score rows by metric id.
        executions: rows of `tables.EXECUTIONS` with those of `tables.EXECUTION_TELEMETRY`, by replicate.
    """

    task_id: str
    part: int
    row_index: int
    sample_id: str
    sample: dict[str, Any]
    responses: list[dict[str, Any]] = field(default_factory=list)
    telemetry: list[dict[str, Any]] = field(default_factory=list)
    judgments: list[dict[str, Any]] = field(default_factory=list)
    scores: Scores = field(default_factory=dict)
    executions: list[dict[str, Any]] = field(default_factory=list)

    def scores_of(self, replicate: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """The entries of a repetition, each with the id of its metric."""
        for metric_id, entries in self.scores.items():
            yield from ((metric_id, entry) for entry in entries if entry["replicate"] == replicate)

    def scores_by(self, measure: Measure) -> list[dict[str, Any]]:
        """The entries of a measure's metric and filter."""
        return [entry for entry in self.scores.get(measure.metric_id, ()) if entry["filter"] == measure.filter]

    def values_of(self, replicate: int) -> Iterator[tuple[str, float, dict[str, Any]]]:
        """The values of a repetition, each with the name that tables print, and its entry."""
        for metric_id, entry in self.scores_of(replicate):
            for key, value in entry["values"].items():
                if value is not None:
                    yield metric_name(metric_id, entry["filter"], key, "mean"), value, entry

    def as_record(self) -> dict[str, Any]:
        """The row as JSON."""
        return {name: value for name, value in vars(self).items() if name != "part"}


@dataclass(frozen=True)
class PartRows:
    """Rows of one part, by table.

    Attributes:
        samples: rows of `tables.SAMPLES`.
        responses, telemetry, judgments: rows of those tables by row index.
        scores: score rows by row index and metric id.
        executions: executions with their measurements, by row index.
    """

    samples: pa.Table
    responses: dict[int, list[dict[str, Any]]]
    telemetry: dict[int, list[dict[str, Any]]]
    judgments: dict[int, list[dict[str, Any]]]
    scores: dict[int, Scores]
    executions: dict[int, list[dict[str, Any]]]


def of_replicate(entries: Sequence[Mapping[str, Any]], replicate: int) -> Mapping[str, Any]:
    """The first entry of a repetition; empty if there is none."""
    return next((entry for entry in entries if entry.get("replicate") == replicate), {})


def score_entry(row: Mapping[str, Any], compared: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A row of `tables.SCORES` as an entry of a metric; ``compared`` is added to its metadata."""
    metadata = {**(compared or {}), **(decode(row["metadata"]) if row["metadata"] else {})}
    return {
        **{name: row[name] for name in ("replicate", "filter", "status")},
        "values": dict(row["values"] or []),
        **{name: row[name] for name in ("extracted", "reason", "explanation")},
        **({"metadata": metadata} if metadata else {}),
        **({"overrides": decode(row["overrides"])} if row["overrides"] else {}),
    }


def verdict_name(judgment: Mapping[str, Any]) -> str:
    """Which of several verdicts a judgment is: ``expert, slot 1``, or ``rule``; empty for the only one of a judge."""
    numbered = [f"{name} {judgment[name]}" for name in ("slot", "draw") if judgment.get(name)]
    by_rule = RULE if judgment.get("decided_by") == RULE else None
    return ", ".join([*filter(None, [judgment.get("judge") or by_rule]), *numbered])


def read_part(
    source: Artifact | PendingResponses,
    part: int,
    columns: Sequence[str] | None = None,
    rows: Sequence[int] | None = None,
) -> pa.Table:
    """The rows of a part, or at least those with these row indexes; empty if the table has no such part, as in a task
    without a judge."""
    if isinstance(source, Artifact) and part not in {info.index for info in source.parts}:
        empty = source.schema.empty()
        return empty if columns is None else empty.select(list(columns))
    return source.read(part, columns, rows=rows) if isinstance(source, Artifact) else source.read(part, columns)


def only_rows(table: pa.Table, only: Sequence[int] | None) -> pa.Table:
    return table if only is None else table.filter(pc.is_in(table["row_index"], pa.array(only, pa.int64())))


def by_row(table: pa.Table) -> dict[int, list[dict[str, Any]]]:
    """Rows by row index, without nulls; JSON columns as values."""
    out: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        kept = {name: value for name, value in row.items() if value is not None and name not in _OF_ROW}
        for name in _JSON_COLUMNS:
            if name in kept:
                kept[name] = decode(kept[name])
        out.setdefault(row["row_index"], []).append(kept)
    return out
