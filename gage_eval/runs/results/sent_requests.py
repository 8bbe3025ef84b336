"""What was asked: the answers of a task with their requests, and the calls about one sample.

Where a request cannot be made again, or none was sent, the prompt as prepared stands in its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.base.statuses import NO_RECORD, REPLAYED
from gage_eval.pipeline.source import prepared_rows
from gage_eval.runs.results.calls import ModelCall
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.rows import SampleRow, of_replicate, only_rows, read_part

_REPLAYED = "No request was sent: the answer was recorded elsewhere. This is the prompt as prepared."
_CHANGED = "The request was sent in another form: a plug-in, a setting or a file has changed since."


class AnswerWithRequest(NamedTuple):
    """An answer and what was asked.

    Attributes:
        row: the sample.
        replicate: which repetition, from 0.
        request: the body of the request as it was sent, or the prompt as prepared.
        response: the row of the table of responses.
        telemetry: the row of their telemetry; empty where there is none.
    """

    row: SampleRow
    replicate: int
    request: Mapping[str, Any]
    response: Mapping[str, Any]
    telemetry: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        """What was asked as a text; messages as JSON."""
        prompt = self.request.get("prompt")
        return prompt if isinstance(prompt, str) else canonical_text(self.request.get("messages", []))

    @property
    def errors(self) -> list[str]:
        """Why a request failed, of each attempt; empty for one that was answered."""
        if self.response["status"] != "error":
            return []
        return self.telemetry.get("errors") or [self.response.get("error_kind") or "error"]


class ShownCalls(NamedTuple):
    """The calls about a sample.

    Attributes:
        calls: of all stages. Where requests cannot be made again, only those of the model under test.
        note: a sentence that says why they are not as sent; empty where they are.
    """

    calls: list[ModelCall]
    note: str


def answers_with_requests(task: TaskReader) -> Iterator[AnswerWithRequest]:
    """Every answer of a task in the order of its rows. One part is in memory at a time."""
    for part in task.parts:
        yield from answers_of_part(task, part, task.row_indexes(part))


def answers_of_part(task: TaskReader, part: int, indexes: Sequence[int]) -> Iterator[AnswerWithRequest]:
    """The answers to the samples at these row indexes of a part, in the order of its rows."""
    rows = list(task.rows_of_part(part, indexes))
    try:
        requests = task.requests(part, {row.row_index: row.sample_id for row in rows})
    except (InputError, OSError):  # the config names something that is gone
        requests = {}
    prepared = {} if requests else _prepared_requests(task, part, indexes)
    for row in rows:
        for response in row.responses:
            replicate = response["replicate"]
            request = requests.get((row.sample_id, replicate), prepared.get(row.row_index, {}))
            yield AnswerWithRequest(row, replicate, request, response, of_replicate(row.telemetry, replicate))


def shown_calls(task: TaskReader, row: SampleRow) -> ShownCalls:
    """The calls about a sample, with a note where a request is not as sent."""
    replayed = any(
        response.get("finish_reason") == REPLAYED or response.get("error_kind") == NO_RECORD
        for response in row.responses
    )
    note = _REPLAYED if replayed else ""
    try:
        calls = task.calls(row)
    except (InputError, OSError) as error:
        note = note or f"The request cannot be made again, so this is the prompt as prepared: {error}"
        timings = {entry["replicate"]: entry for entry in row.telemetry}
        calls = [
            ModelCall("infer", "", response["replicate"], {}, None, response, timings.get(response["replicate"]))
            for response in row.responses
        ]
    if note:
        prompt = _prepared_requests(task, row.part, [row.row_index])[row.row_index]
        calls = [replace(call, request=prompt, as_sent=None) if call.stage == "infer" else call for call in calls]
    return ShownCalls(calls, note or (_CHANGED if any(call.as_sent is False for call in calls) else ""))


def _prepared_requests(task: TaskReader, part: int, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The prompts of some rows as prepared, in the form of requests."""
    prepared = prepared_rows(only_rows(read_part(task.asked, part, rows=rows), rows))
    return {
        row.row_index: {"messages": row.messages}
        if row.prompt is None
        else {"prompt": row.prompt, **({"choices": row.choices} if row.choices else {})}
        for row in prepared
    }
