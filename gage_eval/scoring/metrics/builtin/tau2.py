"""The reward of a task of tau²-bench's domain `mock`."""

from collections.abc import Iterator, Mapping
from typing import Any

from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.data.tau2_mock import Actor, Database, call, earlier_calls, holds, initial_database
from gage_eval.scoring.metrics.base import Score, metric

_USUAL_BASIS = ("DB", "COMMUNICATE")
_FIELDS = {
    "task": "sample.metadata.tau2",
    "turns": "model_output.turns",
    "status": "model_output.status",
    "error_kind": "model_output.error_kind",
}
_ACTORS: tuple[Actor, Actor] = ("assistant", "user")
_Call = tuple[Actor, str, Mapping[str, Any]]


@metric("tau2_reward", binary=True, version=1, fields=_FIELDS)
def tau2_reward(task: JsonValue, turns: JsonValue = None, status: str = "ok", error_kind: str | None = None) -> Score:
    """1 where all parts of a task's ``reward_basis`` hold, else 0; by default ``DB`` and ``COMMUNICATE`` (tau²-bench).

    The calls that the tools answered are made again in fresh databases. ``DB``: the agent's database equals that after
    the gold actions; that of the user too, where some are the user's. ``ENV_ASSERTION``: the task's checks hold.
    ``ACTION``: each gold action was called, with equal values of the arguments in ``compare_args``, by default of all
    that the call has. ``COMMUNICATE``: each text of ``communicate_info`` occurs in a message of the agent, without
    regard to case and to commas of the message. A conversation at a limit has 0. ``NL_ASSERTION`` needs a judge: a task
    with it in its basis has no score.
    """
    if not isinstance(task, dict):
        return Score.unscored("the sample does not come from the loader tau2")
    criteria: Mapping[str, Any] = task.get("evaluation_criteria") or {}
    basis = criteria.get("reward_basis") or _USUAL_BASIS
    made = list(_calls(turns))
    parts = {
        "DB": lambda: _same_databases(task, criteria, made),
        "ENV_ASSERTION": lambda: _assertions_hold(task, criteria, made),
        "ACTION": lambda: _actions_made(task, criteria, made),
        "COMMUNICATE": lambda: _communicated(task, criteria, turns),
    }
    if unknown := [name for name in basis if name not in parts]:
        return Score.unscored(f"the reward of the task depends on {unknown[0]}, which is not computed here")
    at_limit = status == "limit" or error_kind == "same_calls"
    failed = ["limit"] if at_limit else [name for name in basis if not parts[name]()]
    return Score(float(not failed), extracted=", ".join(failed) or None)


def _calls(turns: JsonValue) -> Iterator[_Call]:
    """The calls that tools answered without an error, in order."""
    for turn in turns if isinstance(turns, list) else ():
        if not isinstance(turn, dict):
            continue
        text, statuses = turn.get("tool_calls"), turn.get("tool_statuses")
        made = decode(text) if isinstance(text, str) else []
        for item, answered in zip(made if isinstance(made, list) else [], statuses or [], strict=False):
            function = item.get("function") if isinstance(item, dict) else None
            # What a model calls a tool with may be anything; a tool answers only to an object.
            if answered == "ok" and isinstance(function, dict):
                arguments = function.get("arguments")
                read = decode(arguments or "{}") if isinstance(arguments, str) else arguments
                if isinstance(read, dict):
                    yield "user" if turn.get("actor") == "user" else "assistant", str(function.get("name")), read


def _after(task: Mapping[str, Any], calls: list[_Call]) -> dict[Actor, Database]:
    """Both databases after some calls."""
    databases = {actor: initial_database(task, actor) for actor in _ACTORS}
    for actor, name, arguments in calls:
        call(databases[actor], actor, name, arguments)
    return databases


def _same_databases(task: Mapping[str, Any], criteria: Mapping[str, Any], made: list[_Call]) -> bool:
    if criteria.get("actions") is None and criteria.get("env_assertions") is None:
        return True
    gold: list[_Call] = [
        ("user" if action.get("requestor") == "user" else "assistant", action["name"], action["arguments"])
        for action in criteria.get("actions") or ()
    ]
    reached, wanted = _after(task, made), _after(task, gold)
    # The published rules compare the user's database always. A task of the domain asks its user to change it without a
    # gold action for that, and could not be solved.
    compared: set[Actor] = {"assistant", *(actor for actor, _, _ in gold)}
    return all(canonical_text(reached[actor]) == canonical_text(wanted[actor]) for actor in compared)


def _assertions_hold(task: Mapping[str, Any], criteria: Mapping[str, Any], made: list[_Call]) -> bool:
    databases = _after(task, made)
    return all(
        holds(databases[check["env_type"]], check["func_name"], check["arguments"]) == check.get("assert_value", True)
        for check in criteria.get("env_assertions") or ()
    )


def _actions_made(task: Mapping[str, Any], criteria: Mapping[str, Any], made: list[_Call]) -> bool:
    earlier = [(name, arguments) for actor in _ACTORS for name, arguments in earlier_calls(task, actor)]
    calls = [*earlier, *((name, arguments) for _, name, arguments in made)]
    return all(
        any(name == action["name"] and _same_arguments(action, arguments) for name, arguments in calls)
        for action in criteria.get("actions") or ()
    )


def _same_arguments(action: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    compared = action.get("compare_args")
    names = arguments.keys() if compared is None else compared
    gold = action["arguments"]
    return all((name in gold) == (name in arguments) and gold.get(name) == arguments.get(name) for name in names)


def _communicated(task: Mapping[str, Any], criteria: Mapping[str, Any], turns: JsonValue) -> bool:
    history = (task.get("initial_state") or {}).get("message_history") or ()
    said = [message.get("content") for message in history if message["role"] == "assistant"]
    said += [turn.get("answer") for turn in turns or () if isinstance(turn, dict) and turn.get("actor") != "user"]
    texts = [text.lower().replace(",", "") for text in said if text]
    return all(any(info.lower() in text for text in texts) for info in criteria.get("communicate_info") or ())
