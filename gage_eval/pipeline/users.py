"""The simulated users of an adapter: for each request the one that talks with the model."""

from collections.abc import Mapping
from typing import Any

from gage_eval.base.canonical import JsonValue, encode
from gage_eval.base.field_paths import MISSING, resolve
from gage_eval.engine.tools.sets import episode_tools, merged
from gage_eval.models.client.types import RenderFailure, Request, SimulatedUser
from gage_eval.pipeline.generate_spec import GenerateSpec


def join_user(request: Request, spec: GenerateSpec, rendered: Request | None, sample: Mapping[str, Any]) -> None:
    """Give a request its simulated user, or say in `unasked` why there is none.

    Args:
        request: what the model is asked.
        spec: of the user's adapter.
        rendered: its prompt as messages; None for a scripted user.
        sample: whose episode it is.
    """
    config = spec.simulator
    assert config is not None
    script = None
    if rendered is not None:
        request.unasked = request.unasked or rendered.unasked
        instructions = "\n\n".join(message["content"] for message in rendered.messages or [])
        rendered.messages = [{"role": "system", "content": instructions}]
    else:
        rendered = Request("chat", messages=[])
        turns = resolve(str(config.script), sample=sample)
        script = _turns(turns)
        if script is None:
            request.unasked = RenderFailure(
                "prompt_failed",
                f"sample '{request.sample_id}': '{config.script}' {_fault(turns)}. The turns of a user are a list of "
                "texts, or of objects with content, tool_calls and tool_names.",
            )
    rendered.tool_set, rendered.tool_rounds = episode_tools(spec.tools, sample), spec.tool_rounds
    rendered.tools = merged(None, rendered.tool_set.definitions)
    identity: JsonValue = {
        "spec": spec.material(),
        "messages": None if script is not None else encode([rendered.messages, rendered.params]).decode(),
        "script": script,
        "tools": rendered.tool_set.identity,
    }
    request.user = SimulatedUser(rendered, config.stop, config.max_turns, script, identity)


def _turns(script: Any) -> list[dict[str, Any]] | None:
    """The turns of a script; None if it is none."""
    if script is MISSING or not isinstance(script, list):
        return None
    turns = _as_objects(script)
    return turns if all(map(_is_turn, turns)) else None


def _as_objects(script: list[Any]) -> list[Any]:
    return [{"content": turn} if isinstance(turn, str) else turn for turn in script]


def _fault(script: Any) -> str:
    """Why a script is none."""
    if script is MISSING or not isinstance(script, list):
        return "holds no turns of a user"
    number = next(number for number, turn in enumerate(_as_objects(script), 1) if not _is_turn(turn))
    return f"holds no turns of a user, because turn {number} is none"


def _is_turn(turn: Any) -> bool:
    if not isinstance(turn, Mapping) or not isinstance(turn.get("content"), str):
        return False
    calls, names = turn.get("tool_calls") or [], turn.get("tool_names") or []
    is_called = isinstance(calls, list) and all(
        isinstance(call, Mapping) and isinstance(call.get("name"), str) for call in calls
    )
    is_named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return is_called and is_named and bool(turn["content"].strip())
