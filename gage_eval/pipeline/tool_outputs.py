"""Outputs of a sample's tools. They are recorded in the sample, because no tool runs here."""

from collections.abc import Mapping
from typing import Any

from gage_eval.base.canonical import canonical_text


def tool_outputs(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A sample's recorded outputs, each ``{name, arguments, content}``; arguments are None if any arguments match.

    They are in ``metadata.tool_outputs``, a mapping of name → output or a list of ``{name, output}`` with optional
    ``arguments``. Without it, the outputs of the first golden trajectory are used.
    """
    recorded = (sample.get("metadata") or {}).get("tool_outputs")
    if isinstance(recorded, Mapping):
        return [_output(str(name), None, output) for name, output in recorded.items()]
    if isinstance(recorded, list):
        return [
            _output(str(entry["name"]), entry.get("arguments"), entry.get("output"))
            for entry in recorded
            if isinstance(entry, Mapping) and "name" in entry
        ]
    trajectories = sample.get("golden_trajectories") or []
    return _of_trajectory(trajectories[0]) if trajectories else []


def _of_trajectory(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    calls: dict[str, dict[str, Any]] = {}
    found = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            if isinstance(call.get("function"), Mapping) and isinstance(call.get("id"), str):
                calls[call["id"]] = call["function"]
        function = calls.get(message.get("tool_call_id") or "")
        if message.get("role") == "tool" and function is not None:
            found.append(_output(str(function.get("name")), function.get("arguments"), message.get("content")))
    return found


def _output(name: str, arguments: Any, output: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "content": _text(output)}


def _text(output: Any) -> str:
    """An output as the content of a tool message: text unchanged, message content joined, anything else as JSON."""
    if isinstance(output, str):
        return output
    if isinstance(output, list) and output and all(isinstance(part, Mapping) and "text" in part for part in output):
        return "".join(str(part["text"]) for part in output)
    return canonical_text(output)
