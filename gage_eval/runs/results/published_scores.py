"""Scores in the forms of others: ``.eval_results`` of model pages on the Hugging Face hub, and OpenTelemetry events."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from gage_eval.base.canonical import canonical_json
from gage_eval.base.errors import InputError
from gage_eval.base.version import __version__
from gage_eval.runs.record import RunRecord
from gage_eval.runs.results.every_eval_ever import hub_dataset
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.rows import SampleRow

EVENTS = "evaluation_events.jsonl"
RESULTS = ".eval_results"
_EVENT = "gen_ai.evaluation.result"
_LABELS: dict[bool | None, str] = {True: "pass", False: "fail"}


def eval_results(task: TaskReader, record: RunRecord) -> bytes:
    """A task's entry for the page of its model.

    Raises:
        InputError: its data are not a dataset of the hub, which an entry names, or no metric has a value.
    """
    hub = hub_dataset(task)
    if hub is None:
        raise InputError(
            f"task '{task.task_id}' has no dataset of the Hugging Face hub (loader hf_hub), which .eval_results names. "
            "Choose another --format, or other tasks with --task."
        )
    first = next((metric for metric in task.summary.metrics if metric.value is not None), None)
    if first is None:
        raise InputError(
            f"task '{task.task_id}' has no metric with a value for .eval_results: choose other tasks with --task."
        )
    entry = {
        "dataset": {"id": hub["hub"], "task_id": str(hub.get("subset") or "default")},
        "value": first.value,
        "date": f"{record.created:%Y-%m-%d}",
        "source": {"name": f"gage-eval {__version__}"},
        "notes": f"{first.name}, {first.n} samples, run {record.run_id}",
    }
    return yaml.safe_dump([entry], sort_keys=False, allow_unicode=True).encode()


def event_lines(tasks: Sequence[TaskReader], record: RunRecord) -> Iterator[bytes]:
    """Every score as an event ``gen_ai.evaluation.result``, in OTLP's JSON: one request for the logs of each sample.

    The fields are those of the semantic conventions for generative AI (their state there is "development").
    """
    ended = int((record.finished or record.created).timestamp() * 1e9)
    scope = {"name": "gage_eval", "version": __version__}
    for task in tasks:
        resource = {"service.name": "gage-eval", "gage.run.id": record.run_id, "gage.task.id": task.task_id}
        resource["gen_ai.request.model"] = task.model
        for row in task.rows():
            events = [
                {"timeUnixNano": str(ended), "eventName": _EVENT, "attributes": _attributes(fields)}
                for fields in _events(task, row)
            ]
            if events:
                logs = {
                    "resource": {"attributes": _attributes(resource)},
                    "scopeLogs": [{"scope": scope, "logRecords": events}],
                }
                yield canonical_json({"resourceLogs": [logs]}) + b"\n"


def _events(task: TaskReader, row: SampleRow) -> Iterator[dict[str, Any]]:
    for measure in task.measures:
        for entry in row.scores_by(measure):
            value = entry["values"].get(measure.value_key)
            label = entry["status"] if value is None else _LABELS.get(measure.is_right(value))
            yield {
                "gen_ai.evaluation.name": measure.name,
                "gen_ai.evaluation.score.value": value,
                "gen_ai.evaluation.score.label": label,
                "gen_ai.evaluation.explanation": entry["explanation"] or entry["reason"],
                "gage.sample.id": row.sample_id,
                "gage.replicate": entry["replicate"],
            }


def _attributes(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in fields.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    # OTLP writes whole numbers as texts.
    return {"doubleValue": value} if isinstance(value, float) else {"intValue": str(value)}
