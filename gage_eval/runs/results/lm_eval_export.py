"""Export in the form of the lm-eval harness: one results file per run, one samples file per task.

    lm-eval/<model>/results_<time>.json
    lm-eval/<model>/samples_<task>_<time>.jsonl

A samples file has one line per sample, replicate and filter, as lm-eval writes it with ``--log_samples``.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from gage_eval.base.canonical import canonical_json, sha256_hex
from gage_eval.base.version import __version__
from gage_eval.report.metric_names import metric_name
from gage_eval.report.summary import MetricSummary
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.sent_requests import AnswerWithRequest, answers_with_requests

FOLDER = "lm-eval"
_NO_FILTER = "none"
# Characters that lm-eval replaces in file names.
_UNSAFE = re.compile(r"[\"<>:/\|\\?\*\[\]]+")


def results(tasks: Sequence[TaskReader], started: float, ended: float) -> dict[str, Any]:
    """The content of the results file.

    Args:
        tasks: of one model, scored and reported.
        started, ended: of the run, in seconds since the epoch.
    """
    model = tasks[0].model
    return {
        "results": {task.task_id: _numbers(task) for task in tasks},
        "group_subtasks": {task.task_id: [] for task in tasks},
        "configs": {task.task_id: _config(task) for task in tasks},
        "versions": {task.task_id: "N/A" for task in tasks},
        "n-shot": {task.task_id: _shots(task) for task in tasks},
        "higher_is_better": {
            task.task_id: {_base(metric): metric.higher_is_better for metric in task.summary.metrics} for task in tasks
        },
        "n-samples": {
            task.task_id: {
                "original": task.summary.sample_count + task.summary.rejects,
                "effective": task.summary.sample_count,
            }
            for task in tasks
        },
        "config": {"model": model, "model_args": None, "limit": None, "bootstrap_iters": 0, "gen_kwargs": None},
        "git_hash": None,
        "date": started,
        "pretty_env_info": f"gage-eval {__version__}",
        "model_source": "gage-eval",
        "model_name": model,
        "model_name_sanitized": sanitized(model),
        "system_instruction": None,
        "chat_template": None,
        "start_time": started,
        "end_time": ended,
        "total_evaluation_time_seconds": str(ended - started),
    }


def sample_lines(task: TaskReader) -> Iterator[bytes]:
    """The lines of a task's samples file."""
    filters = list(dict.fromkeys(metric.filter for metric in task.summary.metrics))
    for answer in answers_with_requests(task):
        for filter_ in filters:
            yield canonical_json(_line(task, answer, filter_)) + b"\n"


def sanitized(name: str) -> str:
    """A model's name as lm-eval puts it into file names."""
    return _UNSAFE.sub("__", name)


def _line(task: TaskReader, answer: AnswerWithRequest, filter_: str | None) -> dict[str, Any]:
    row, request = answer.row, answer.request
    entries = {
        (metric_id, key): (value, entry)
        for metric_id, scores in row.scores.items()
        for entry in scores
        if entry["filter"] == filter_ and entry["replicate"] == answer.replicate
        for key, value in entry["values"].items()
    }
    wanted = [metric for metric in task.summary.metrics if metric.filter == filter_]
    values = {
        _base(metric): entries[metric.metric_id, metric.value_key][0]
        for metric in wanted
        if (metric.metric_id, metric.value_key) in entries
    }
    extracted = next((entry["extracted"] for _, entry in entries.values() if entry["extracted"] is not None), None)
    text = answer.response.get("answer")
    prompt = answer.prompt
    target = row.sample.get("label")
    params = {name: value for name, value in request.items() if name not in ("prompt", "messages", "model")}
    return {
        "doc_id": row.row_index,
        "doc": row.sample,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": params}},
        "resps": [[text]],
        "filtered_resps": [text if extracted is None else extracted],
        "filter": filter_ or _NO_FILTER,
        "metrics": list(values),
        "doc_hash": sha256_hex(canonical_json(row.sample)),
        "prompt_hash": sha256_hex(prompt.encode(errors="replace")),
        "target_hash": sha256_hex(str(target).encode(errors="replace")),
        "sample_id": row.sample_id,
        "replicate": answer.replicate,
        **values,
    }


def _numbers(task: TaskReader) -> dict[str, Any]:
    out: dict[str, Any] = {"alias": task.task_id, "sample_len": task.summary.sample_count}
    for metric in task.summary.metrics:
        filter_ = metric.filter or _NO_FILTER
        out[f"{_base(metric)},{filter_}"] = metric.value
        out[f"{_base(metric)}_stderr,{filter_}"] = "N/A" if metric.stderr is None else metric.stderr
    return out


def _base(metric: MetricSummary) -> str:
    """A metric's name without its filter."""
    return metric_name(metric.metric_id, None, metric.value_key, metric.aggregation)


def _config(task: TaskReader) -> dict[str, Any]:
    summary = task.summary
    return {
        "task": task.task_id,
        "dataset_path": summary.dataset_id,
        "description": summary.description or "",
        "num_fewshot": _shots(task),
        "output_type": "generate_until",
        "metric_list": [
            {"metric": _base(metric), "aggregation": metric.aggregation, "higher_is_better": metric.higher_is_better}
            for metric in summary.metrics
        ],
        "metadata": {"gage_eval_version": __version__},
    }


def _shots(task: TaskReader) -> int:
    rules = None if task.plan is None else task.plan.preprocess.few_shot
    return 0 if rules is None else rules.k or 0
