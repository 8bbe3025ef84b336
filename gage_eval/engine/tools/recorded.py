"""Tools whose outputs are recorded in the sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.models.client.tools import Effects, EpisodeState


@dataclass(frozen=True, eq=False)
class RecordedTool:
    """A tool that answers with outputs of its name: `gage_eval.models.client.tools.Tool`.

    Attributes:
        outputs: each ``{name, arguments, content}``; arguments are None if any arguments match.
    """

    effects: ClassVar[Effects] = "none"
    is_repeatable: ClassVar[bool] = False
    outputs: Sequence[Mapping[str, Any]]

    @property
    def identity(self) -> JsonValue:
        """The outputs."""
        return {"recorded": [dict(output) for output in self.outputs]}

    async def run(self, arguments: str, state: EpisodeState) -> str:
        """The output of equal arguments, else the first."""
        wanted = _parsed(arguments)
        with_arguments = (output for output in self.outputs if output["arguments"] is not None)
        same = (output for output in with_arguments if _parsed(output["arguments"]) == wanted)
        return str(next(same, self.outputs[0])["content"])

    def normalised(self, content: str) -> str:
        """The content."""
        return content


def recorded_tools(sample: Mapping[str, Any]) -> dict[str, RecordedTool]:
    """The tools of a sample by name.

    Their outputs are in ``metadata.tool_outputs``, a mapping of name → output or a list of ``{name, output}`` with
    optional ``arguments``. Without it, the outputs of the first golden trajectory are used.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for output in _outputs(sample):
        by_name.setdefault(output["name"], []).append(output)
    return {name: RecordedTool(outputs) for name, outputs in by_name.items()}


def _outputs(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
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
    outputs = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            if isinstance(call.get("function"), Mapping) and isinstance(call.get("id"), str):
                calls[call["id"]] = call["function"]
        function = calls.get(message.get("tool_call_id") or "")
        if message.get("role") == "tool" and function is not None:
            outputs.append(_output(str(function.get("name")), function.get("arguments"), message.get("content")))
    return outputs


def _output(name: str, arguments: Any, output: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "content": _text(output)}


def _text(output: Any) -> str:
    """An output as the content of a tool message: text unchanged, message content joined, anything else as JSON."""
    if isinstance(output, str):
        return output
    if isinstance(output, list) and output and all(isinstance(part, Mapping) and "text" in part for part in output):
        return "".join(str(part["text"]) for part in output)
    return canonical_text(output)


def _parsed(arguments: Any) -> Any:
    """Arguments as values: endpoints write the same JSON with different spaces."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return decode(arguments)
    except ValueError:
        return arguments
