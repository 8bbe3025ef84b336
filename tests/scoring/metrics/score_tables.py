"""Small tables for metric tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from gage_eval.base.tables import JUDGMENTS, RESPONSE_TELEMETRY, RESPONSES
from gage_eval.data.sample.table import samples_to_table
from gage_eval.scoring.metrics import BoundMetric

OPTIONS = [{"id": "A", "content": "Paris"}, {"id": "B", "content": "Rome"}, {"id": "C", "content": "Oslo"}]


def sample(row: int, label: str | None = "x", **fields: Any) -> dict[str, Any]:
    """A normalised sample."""
    return {
        "schema_version": "v1",
        "id": f"s{row}",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "?"}]}],
        "references": [] if label is None else [{"answer": [{"type": "text", "text": label}]}],
        **({} if label is None else {"label": label}),
        **fields,
    }


def samples(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The samples table; row indexes count from 0."""
    return samples_to_table(rows, list(range(len(rows))))


def responses(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The responses table; by default row i answers sample i with status ok."""
    full = [
        {"row_index": index, "replicate": 0, "status": "ok", **row, "sample_id": f"s{row.get('row_index', index)}"}
        for index, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(full, schema=RESPONSES.arrow)


def answers(texts: Sequence[str | None]) -> pa.Table:
    """A responses table of plain answers."""
    return responses([{"answer": text} for text in texts])


def judgments(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The judgments table."""
    full = [{"row_index": index, "replicate": 0, "status": "ok", **row} for index, row in enumerate(rows)]
    return pa.Table.from_pylist(full, schema=JUDGMENTS.arrow)


def telemetry(latencies: Sequence[float | None]) -> pa.Table:
    """The telemetry table."""
    full = [{"row_index": i, "replicate": 0, "latency_ms": value} for i, value in enumerate(latencies)]
    return pa.Table.from_pylist(full, schema=RESPONSE_TELEMETRY.arrow)


def score(metric: BoundMetric, pairs: Sequence[tuple[str | None, str | None]]) -> list[tuple[str, dict[str, float]]]:
    """(status, values) of answers against labels, given as (answer, label)."""
    table = metric.score_table(
        {
            "samples": samples([sample(i, label) for i, (_, label) in enumerate(pairs)]),
            "responses": answers([a for a, _ in pairs]),
        }
    )
    return [(row["status"], dict(row["values"])) for row in table.to_pylist()]
