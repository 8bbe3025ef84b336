"""Export in the form of Every Eval Ever 0.3: for each model a file of numbers and a file of rows.

    every-eval-ever/data/gage-eval/<developer>/<model>/<uuid>.json
    every-eval-ever/data/gage-eval/<developer>/<model>/<uuid>_samples.jsonl

A row is one answer under one number: the format has a record for each of several metrics.
"""

import hashlib
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gage_eval.base.canonical import canonical_json, sha256_hex
from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import reference_texts
from gage_eval.base.version import __version__
from gage_eval.report.summary import MetricSummary
from gage_eval.runs.record import RunRecord
from gage_eval.runs.results.explain import question_of
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.rows import of_replicate
from gage_eval.runs.results.sent_requests import AnswerWithRequest, answers_with_requests

FOLDER = "every-eval-ever"
_VERSION = "0.3.0"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_ARGS = ("temperature", "top_p", "top_k", "max_tokens")


def model_id(tasks: Sequence[TaskReader]) -> str:
    """The model of the tasks as ``developer/model``."""
    name = tasks[0].model
    return name if "/" in name.strip("/") else f"unknown/{name}"


def place(tasks: Sequence[TaskReader], record: RunRecord) -> str:
    """The path of a model's files below the folder, without their endings."""
    developer, _, model = model_id(tasks).strip("/").partition("/")
    names = [_UNSAFE.sub("-", name).strip(".-") or "model" for name in (developer, model)]
    # The same run gives the same name, in the form of a random one, which the format asks for.
    own = uuid.UUID(bytes=hashlib.sha256(evaluation_id(tasks, record).encode()).digest()[:16], version=4)
    return "/".join(["data/gage-eval", *names, str(own)])


def evaluation_id(tasks: Sequence[TaskReader], record: RunRecord) -> str:
    """The name of a model's evaluation in a run."""
    return f"{record.name}/{model_id(tasks)}/{record.run_id or record.created.isoformat()}"


def aggregate(tasks: Sequence[TaskReader], record: RunRecord, file: str, rows: int, checksum: str) -> dict[str, Any]:
    """The file of numbers.

    Args:
        tasks: of one model, scored and reported.
        record: of the run.
        file: the path of the file of rows.
        rows, checksum: of that file.
    """
    model = model_id(tasks)
    return {
        "schema_version": _VERSION,
        "evaluation_id": evaluation_id(tasks, record),
        "evaluation_timestamp": record.created.isoformat(),
        "retrieved_timestamp": str(record.created.timestamp()),
        "source_metadata": {
            "source_name": f"run {record.run_id} of gage-eval",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "gage-eval", "version": __version__},
        "model_info": {
            "name": tasks[0].model,
            "id": model,
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": [
            _result(task, metric, record)
            for task in tasks
            for metric in task.summary.metrics
            if metric.value is not None
        ],
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": file,
            "hash_algorithm": "sha256",
            "checksum": checksum,
            "total_rows": rows,
        },
    }


def sample_lines(tasks: Sequence[TaskReader], record: RunRecord) -> Iterator[bytes]:
    """The lines of the file of rows. An answer without a score is in no row.

    Raises:
        InputError: an answer has several turns.
    """
    fixed = {"schema_version": _VERSION, "evaluation_id": evaluation_id(tasks, record), "model_id": model_id(tasks)}
    for task in tasks:
        measures = {(own.metric_id, own.filter, own.value_key): own for own in task.measures}
        # A number per way of aggregating has the same rows; they belong to the first one.
        firsts: dict[Measure, str] = {}
        for metric in task.summary.metrics:
            if metric.value is not None:
                measure = measures[metric.metric_id, metric.filter, metric.value_key]
                firsts.setdefault(measure, _result_id(task, metric))
        for answer in answers_with_requests(task):
            if answer.response.get("turns"):
                raise InputError(
                    f"task '{task.task_id}' has answers of several turns, and every-eval-ever is of "
                    "single ones. Choose another --format, or other tasks with --task."
                )
            own = {**fixed, "evaluation_name": task.task_id, **_answer(answer)}
            for measure, result_id in firsts.items():
                entry = of_replicate(answer.row.scores_by(measure), answer.replicate)
                value = entry.get("values", {}).get(measure.value_key)
                if value is not None:
                    scored = _score(entry, value, measure)
                    yield canonical_json({**own, "evaluation_result_id": result_id, **scored}) + b"\n"


def _result_id(task: TaskReader, metric: MetricSummary) -> str:
    return f"{task.task_id}/{metric.name}"


def _result(task: TaskReader, metric: MetricSummary, record: RunRecord) -> dict[str, Any]:
    uncertainty: dict[str, Any] = {"num_samples": metric.n}
    if metric.stderr is not None:
        uncertainty["standard_error"] = {"value": metric.stderr}
    if metric.ci_low is not None and metric.ci_high is not None:
        uncertainty["confidence_interval"] = {
            "lower": metric.ci_low,
            "upper": metric.ci_high,
            "confidence_level": 0.95,
            **({"method": metric.interval} if metric.interval else {}),
        }
    request: Mapping[str, Any] = next((answer.request for answer in answers_with_requests(task)), {})
    args = {name: value for name, value in request.items() if name in _ARGS and value is not None}
    return {
        "evaluation_result_id": _result_id(task, metric),
        "evaluation_name": task.task_id,
        "evaluation_timestamp": record.created.isoformat(),
        "source_data": _source(task),
        "metric_config": {
            "metric_id": metric.metric_id,
            "metric_name": metric.name,
            "metric_kind": metric.implementation,
            "lower_is_better": metric.higher_is_better is False,
            "score_type": "continuous",
            "min_score": "-Infinity" if metric.bound_low is None else metric.bound_low,
            "max_score": "Infinity" if metric.bound_high is None else metric.bound_high,
            "additional_details": {"aggregation": metric.aggregation, "unscored_rows": str(metric.unscored)},
        },
        "score_details": {"score": metric.value, "uncertainty": uncertainty},
        "generation_config": {"generation_args": args},
    }


def _source(task: TaskReader) -> dict[str, Any]:
    name = task.summary.dataset_id
    hub = hub_dataset(task)
    if hub is None:
        return {"dataset_name": name, "source_type": "other"}
    return {
        "dataset_name": name,
        "source_type": "hf_dataset",
        "hf_repo": hub["hub"],
        **({"hf_split": hub["split"]} if isinstance(hub.get("split"), str) else {}),
        "samples_number": task.summary.sample_count,
    }


def hub_dataset(task: TaskReader) -> Mapping[str, Any] | None:
    """The parameters of a task's dataset if it is one of the Hugging Face hub; None for any other."""
    load = None if task.plan is None else task.plan.load
    return load.params if load is not None and isinstance(load.params.get("hub"), str) else None


def _answer(answer: AnswerWithRequest) -> dict[str, Any]:
    row, replicate, _, response, telemetry = answer
    sample = row.sample
    raw, references = question_of(sample), reference_texts(sample) or [str(sample.get("label") or "")]
    reasoning = response.get("reasoning")
    counts = response.get("prompt_tokens"), response.get("completion_tokens")
    options = [str(option.get("content", "")) for option in sample.get("options") or ()]
    return {
        "sample_id": row.sample_id,
        "sample_hash": sha256_hex(canonical_json([raw, references])),
        "interaction_type": "single_turn",
        "input": {
            "raw": raw,
            "formatted": answer.prompt,
            "reference": references,
            "choices": options or None,
        },
        "output": {"raw": [response.get("answer") or ""], "reasoning_trace": [reasoning] if reasoning else None},
        "token_usage": None
        if None in counts
        else {"input_tokens": counts[0], "output_tokens": counts[1], "total_tokens": sum(filter(None, counts))},
        "performance": None if telemetry.get("latency_ms") is None else {"latency_ms": telemetry["latency_ms"]},
        "error": response.get("error_kind"),
        "metadata": {"replicate": str(replicate), "status": response["status"]},
    }


def _score(entry: Mapping[str, Any], value: float, measure: Measure) -> dict[str, Any]:
    extracted = entry["extracted"]
    read = {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": extracted,
        "extraction_method": entry["filter"] or measure.metric_id,
        "is_terminal": True,
    }
    return {
        "answer_attribution": [] if extracted is None else [read],
        "evaluation": {"score": value, "is_correct": measure.is_right(value) is True},
    }
