"""Export as trajectories of ATIF 1.8, in the form of a job's folder of Harbor, which `gage import` reads as well.

Each answer is a trial: ``<task>/<trial>/agent/trajectory.json`` with its steps, and ``<task>/<trial>/result.json`` with
its scores as rewards. The fields are those of Harbor's models (``harbor.models.trajectories``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gage_eval.base.canonical import canonical_text
from gage_eval.base.version import __version__
from gage_eval.report.messages import call_arguments, questions, tool_calls
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.sent_requests import AnswerWithRequest, answers_with_requests

FOLDER = "atif"
_VERSION = "ATIF-v1.8"
_SOURCES = {"system": "system", "developer": "system", "assistant": "agent"}


def trials(task: TaskReader, run_id: str) -> Iterator[tuple[str, int, dict[str, Any], dict[str, Any]]]:
    """(sample id, replicate, trajectory, result) of every answer, in the order of the rows.

    Args:
        task: scored and reported.
        run_id: the run's name.
    """
    for answer in answers_with_requests(task):
        sample_id, replicate = answer.row.sample_id, answer.replicate
        trajectory = _trajectory(task, answer, run_id)
        rewards = {name: float(value) for name, value, _ in answer.row.values_of(replicate)}
        result = {
            "task_name": sample_id,
            "trial_name": f"{sample_id}__{replicate + 1}",
            "verifier_result": {"rewards": rewards} if rewards else None,
            "exception_info": _failure(answer),
        }
        yield sample_id, replicate, trajectory, result


def _trajectory(task: TaskReader, answer: AnswerWithRequest, run_id: str) -> dict[str, Any]:
    steps = list(_steps(answer.request, answer.response, answer.telemetry))
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    return {
        "schema_version": _VERSION,
        "session_id": run_id,
        "trajectory_id": f"{task.task_id}/{answer.row.sample_id}/{answer.replicate + 1}",
        "agent": {"name": "gage-eval", "version": __version__, "model_name": task.model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {
            f"total_{name}": sum(own[name] for own in metrics if name in own)
            for name in ("prompt_tokens", "completion_tokens", "cost_usd")
            if any(name in own for own in metrics)
        }
        | {"total_steps": len(steps)},
        "extra": {"status": answer.response["status"]},
    }


def _steps(
    request: Mapping[str, Any], response: Mapping[str, Any], telemetry: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    messages = request.get("messages")
    if not isinstance(messages, list):
        messages = [{"role": "user", "content": str(request.get("prompt", ""))}]
    turns = response.get("turns") or [response]
    timed = telemetry.get("turn_telemetry") or ()
    own = [_turn(turn, timed[number] if number < len(timed) else {}) for number, turn in enumerate(turns)]
    places = questions([str(message.get("role", "")) for message in messages], turns)
    after = {} if places is None else dict(zip(places, own, strict=False))
    before: dict[str, Any] | None = None
    for place, message in enumerate(messages):
        if message.get("role") == "tool" and before is not None and "tool_calls" in before:
            result = _result(before["tool_calls"], message.get("tool_call_id"), _text(message.get("content")))
            before.setdefault("observation", {"results": []})["results"].append(result)
            continue
        if before is not None:
            yield before
        before = _said_before(message)
        if place in after:
            yield before
            before = None
            yield after[place]
    if before is not None:
        yield before
    yield from own[len(after) :]


def _said_before(message: Mapping[str, Any]) -> dict[str, Any]:
    """The step of a message that was part of what the model was asked."""
    step: dict[str, Any] = {
        "source": _SOURCES.get(str(message.get("role")), "user"),
        "message": _text(message.get("content")),
    }
    if step["source"] == "agent":
        step["is_copied_context"] = True
        if calls := _calls(message.get("tool_calls")):
            step["tool_calls"] = calls
    return step


def _turn(turn: Mapping[str, Any], took: Mapping[str, Any]) -> dict[str, Any]:
    """The step of a call of the model, or of the simulated user, with what the tools answered that it called."""
    if turn.get("actor") == "user":
        return {"source": "user", "message": turn.get("answer") or ""}
    step: dict[str, Any] = {"source": "agent", "message": turn.get("answer") or "", "llm_call_count": 1}
    if turn.get("reasoning"):
        step["reasoning_content"] = turn["reasoning"]
    if calls := _calls(turn.get("tool_calls")):
        step["tool_calls"] = calls
        outputs = turn.get("tool_outputs") or ()
        results = [_result(calls, call["tool_call_id"], output) for call, output in zip(calls, outputs, strict=False)]
        if results:
            step["observation"] = {"results": results}
    metrics = {name: turn[name] for name in ("prompt_tokens", "completion_tokens") if turn.get(name) is not None}
    if took.get("cost") is not None:
        metrics["cost_usd"] = took["cost"]
    if metrics:
        step["metrics"] = metrics
    return step


def _calls(value: Any) -> list[dict[str, Any]]:
    return [
        {
            "tool_call_id": call.id or f"call_{number}",
            "function_name": call.name,
            "arguments": call_arguments(call.arguments),
        }
        for number, call in enumerate(tool_calls(value), 1)
    ]


def _result(calls: Sequence[Mapping[str, Any]], call_id: Any, content: Any) -> dict[str, Any]:
    known = any(call["tool_call_id"] == call_id for call in calls)
    return {**({"source_call_id": call_id} if known else {}), "content": str(content)}


def _text(content: Any) -> str:
    """A message's content as a text; a part that is none stands as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part if isinstance(part, Mapping) else {"text": str(part)} for part in content]
    return "\n".join(str(part["text"]) if "text" in part else canonical_text(dict(part)) for part in parts)


def _failure(answer: AnswerWithRequest) -> dict[str, str] | None:
    if not answer.errors:
        return None
    return {"exception_type": answer.response.get("error_kind") or "error", "exception_message": answer.errors[-1]}
