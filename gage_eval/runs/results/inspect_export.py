"""Export as logs of Inspect: one ``.eval`` file per task, which `inspect view` and Inspect's own reader open.

A log is a ZIP file: ``header.json`` (the task, its numbers), one JSON file per sample and epoch, and ``summaries.json``
with a line of each for lists. Samples are written one by one, so that a large task needs little memory.
"""

import json
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import canonical_text, sha256_hex
from gage_eval.base.field_paths import reference_texts
from gage_eval.base.version import __version__
from gage_eval.report.messages import call_arguments
from gage_eval.report.metric_names import metric_name
from gage_eval.report.summary import MetricSummary, TaskSummary
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.sent_requests import AnswerWithRequest, answers_with_requests

FOLDER = "inspect"
_LOG_VERSION = 2
_STOP_REASONS = {
    "stop": "stop",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}
# Texts in summaries.json are cut after this many characters, as Inspect does.
_SHORT = 1024
# Characters of an id in the name of a member: a ZIP file has room for 65,535 bytes.
_LONGEST_NAME = 10_000
# Sampling parameters by the names of Inspect's GenerateConfig.
_CONFIG = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "stop": "stop_seqs",
}


def write_log(task: TaskReader, file: Path, *, run_id: str, created: datetime, finished: datetime) -> None:
    """Write a task's log.

    Args:
        task: scored and reported.
        file: the log.
        run_id: the run's name.
        created, finished: when the run started and ended.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as log:
        spec = _spec(task, run_id, created)
        log.writestr("_journal/start.json", _text({"version": _LOG_VERSION, "eval": spec, "plan": _PLAN}))
        summaries: list[dict[str, Any]] = []
        config: dict[str, Any] = {}
        for answer in answers_with_requests(task):
            sample = _sample(task, answer)
            config = config or _generate_config(answer.request)
            log.writestr(f"samples/{_member(sample['id'])}_epoch_{sample['epoch']}.json", _text(sample))
            summaries.append(_summary(sample))
        log.writestr("summaries.json", _text(summaries))
        header = {
            "version": _LOG_VERSION,
            "status": "success",
            "eval": {**spec, "model_generate_config": config},
            "plan": _PLAN,
            "results": _results(task.summary, len(summaries)),
            "stats": {
                "started_at": created.isoformat(),
                "completed_at": finished.isoformat(),
                "model_usage": {task.model: _usage(task.summary.tokens.prompt, task.summary.tokens.completion)},
            },
        }
        log.writestr("header.json", _text(header))


_PLAN = {"name": "plan", "steps": [], "config": {}}


def _member(sample_id: str) -> str:
    """The name of a sample in the archive: its id, as Inspect looks for it, or a hash where that would be no name."""
    parts = sample_id.replace("\\", "/").split("/")
    is_name = parts[0] and ".." not in parts and "\0" not in sample_id and len(sample_id) <= _LONGEST_NAME
    return sample_id if is_name else sha256_hex(sample_id.encode())[:24]


def _spec(task: TaskReader, run_id: str, created: datetime) -> dict[str, Any]:
    summary = task.summary
    return {
        "eval_id": f"{run_id}-{task.task_id}",
        "run_id": run_id,
        "created": created.isoformat(),
        "task": task.task_id,
        "task_id": task.task_id,
        "task_version": 0,
        "dataset": {"name": summary.dataset_id, "samples": summary.sample_count},
        "model": task.model,
        "config": {"epochs": max(1, sum(summary.responses.values()) // max(1, task.asked.rows))},
        "packages": {"gage_eval": __version__},
    }


def _results(summary: TaskSummary, logged: int) -> dict[str, Any]:
    return {
        "total_samples": logged,
        "completed_samples": logged - summary.responses.get("error", 0),
        "scores": [_score(metric) for metric in summary.metrics],
    }


def _score(metric: MetricSummary) -> dict[str, Any]:
    numbers = {metric.aggregation: metric.value, "stderr": metric.stderr}
    return {
        "name": metric_name(metric.metric_id, metric.filter, metric.value_key, "mean"),
        "scorer": metric.implementation,
        "scored_samples": metric.n,
        "unscored_samples": metric.unscored,
        "metrics": {name: {"name": name, "value": value} for name, value in numbers.items() if value is not None},
        "metadata": {"ci_low": metric.ci_low, "ci_high": metric.ci_high, "unparsed": metric.unparsed},
    }


def _sample(task: TaskReader, answer: AnswerWithRequest) -> dict[str, Any]:
    """A response as a sample of Inspect."""
    row, replicate, request, response, telemetry = answer
    messages = [_message(message) for message in request.get("messages") or ()]
    message = _answer(response, task.model)
    usage = _usage(response.get("prompt_tokens"), response.get("completion_tokens"))
    seconds = telemetry["latency_ms"] / 1000 if telemetry.get("latency_ms") is not None else None
    sample = {
        "id": row.sample_id,
        "epoch": replicate + 1,
        "input": messages or str(request.get("prompt", "")),
        "choices": [str(option.get("content", "")) for option in row.sample.get("options") or ()] or None,
        "target": _target(row.sample),
        "messages": [*messages, message],
        "output": {
            "model": task.model,
            "choices": [
                {"message": message, "stop_reason": _STOP_REASONS.get(response.get("finish_reason", ""), "unknown")}
            ],
            "completion": response.get("answer") or "",
            "usage": usage,
            "time": seconds,
        },
        "scores": {name: _entry(value, entry) for name, value, entry in row.values_of(replicate)},
        "metadata": {**(row.sample.get("metadata") or {}), "status": response["status"]},
        "model_usage": {task.model: usage},
        "total_time": seconds,
    }
    if lines := answer.errors:
        sample["error"] = {"message": lines[-1], "traceback": "\n".join(lines), "traceback_ansi": "\n".join(lines)}
    return {name: value for name, value in sample.items() if value is not None}


def _entry(value: float, entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {"status": entry["status"], "reason": entry["reason"], **entry.get("metadata", {})}
    return {
        "value": value,
        "answer": entry["extracted"],
        "explanation": entry["explanation"],
        "metadata": {name: item for name, item in kept.items() if item is not None},
    }


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message in OpenAI's form as one of Inspect."""
    content = message.get("content")
    out: dict[str, Any] = {
        "role": "system" if message["role"] == "developer" else message["role"],
        "content": content if isinstance(content, str) else [_segment(segment) for segment in content or ()],
    }
    if message.get("tool_calls"):
        out["tool_calls"] = [_tool_call(call) for call in message["tool_calls"]]
    if message["role"] == "tool":
        out |= {name: message[key] for name, key in (("tool_call_id",) * 2, ("function", "name")) if message.get(key)}
    return out


def _segment(segment: Mapping[str, Any]) -> dict[str, Any]:
    kind = segment.get("type")
    if kind == "text":
        return {"type": "text", "text": segment.get("text", "")}
    medium = segment.get(str(kind))
    url = medium.get("url") if isinstance(medium, Mapping) else medium
    if kind == "image_url" and isinstance(url, str):
        return {"type": "image", "image": url}
    if kind == "audio_url" and isinstance(url, str):
        return {"type": "audio", "audio": url, "format": "mp3" if url.endswith(".mp3") else "wav"}
    if kind == "video_url" and isinstance(url, str):
        return {"type": "video", "video": url, "format": "mp4"}
    return {"type": "text", "text": canonical_text(dict(segment))}


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = call_arguments(arguments)
    return {
        "id": call.get("id", ""),
        "function": function.get("name", ""),
        "arguments": arguments if isinstance(arguments, dict) else {},
        "type": "function",
    }


def _answer(response: Mapping[str, Any], model: str) -> dict[str, Any]:
    text = response.get("answer") or ""
    content: str | list[dict[str, Any]] = text
    if response.get("reasoning"):
        content = [{"type": "reasoning", "reasoning": response["reasoning"]}, {"type": "text", "text": text}]
    message: dict[str, Any] = {"role": "assistant", "source": "generate", "model": model, "content": content}
    calls = response.get("tool_calls")
    if isinstance(calls, list) and calls:
        message["tool_calls"] = [_tool_call(call) for call in calls if isinstance(call, Mapping)]
    return message


def _target(sample: Mapping[str, Any]) -> str | list[str]:
    """The texts of the references; without any, the label."""
    texts = reference_texts(sample)
    if not texts:
        return str(sample.get("label") or "")
    return texts[0] if len(texts) == 1 else texts


def _generate_config(request: Mapping[str, Any]) -> dict[str, Any]:
    config = {_CONFIG[name]: value for name, value in request.items() if name in _CONFIG and value is not None}
    if isinstance(config.get("stop_seqs"), str):
        config["stop_seqs"] = [config["stop_seqs"]]
    return config


def _usage(prompt: int | None, completion: int | None) -> dict[str, int]:
    return {
        "input_tokens": prompt or 0,
        "output_tokens": completion or 0,
        "total_tokens": (prompt or 0) + (completion or 0),
    }


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample's entry of ``summaries.json``, with short texts."""
    prompt = sample["input"]
    last = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    shown = last if isinstance(last, str) else canonical_text(last)
    error = {"error": sample["error"]["message"]} if "error" in sample else {}
    return {
        "id": sample["id"],
        "epoch": sample["epoch"],
        "input": shown[:_SHORT],
        "target": sample["target"],
        "scores": {
            name: {"value": score["value"], "answer": (score["answer"] or "")[:_SHORT]}
            for name, score in sample["scores"].items()
        },
        "model_usage": sample["model_usage"],
        "completed": True,
        "message_count": len(sample["messages"]),
        **error,
    }


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
