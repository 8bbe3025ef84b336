"""The answers of a task, each with what was asked: what exports to other tools are made of."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gage_eval.runs.reading import TaskReader
from gage_eval.runs.rows import SampleRow


class Asked(NamedTuple):
    """An answer and what was asked.

    Attributes:
        row: the sample.
        replicate: which repetition, from 0.
        request: the body of the request as it was sent; empty where it is no longer known.
        response: the row of the table of responses.
        telemetry: the row of their telemetry; empty where there is none.
    """

    row: SampleRow
    replicate: int
    request: Mapping[str, Any]
    response: Mapping[str, Any]
    telemetry: Mapping[str, Any]


def everything_asked(task: TaskReader) -> Iterator[Asked]:
    """Every answer of a task in the order of its rows. One part is in memory at a time."""
    for part in task.parts:
        rows = list(task.rows_of_part(part, task.row_indexes(part)))
        sent = task.requests(part, {row.row_index: row.sample_id for row in rows})
        for row in rows:
            for number, response in enumerate(row.responses):
                replicate = response.get("replicate", number)
                request = sent.get((row.sample_id, replicate), {})
                telemetry = row.telemetry[number] if number < len(row.telemetry) else {}
                yield Asked(row, replicate, request, response, telemetry)
