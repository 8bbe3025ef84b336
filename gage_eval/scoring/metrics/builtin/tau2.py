"""The reward of a task of tau²-bench: by its evaluator; for the domain `mock`, by our rules."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.base.errors import InputError
from gage_eval.data import tau2_checkout
from gage_eval.data.tau2_checkout import SessionLost
from gage_eval.data.tau2_mock import Actor, Database, call, earlier_calls, holds, initial_database
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.trajectories import function_of

_USUAL_BASIS = ("DB", "COMMUNICATE")
_FIELDS = {
    "task": "sample.metadata.tau2",
    "turns": "model_output.turns",
    "status": "model_output.status",
    "error_kind": "model_output.error_kind",
    "judge": "judge_output.score",
}
_ACTORS: tuple[Actor, Actor] = ("assistant", "user")
_PARTS = frozenset({"DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE", "NL_ASSERTION"})
_Call = tuple[Actor, str, Mapping[str, Any]]


class _Answered(NamedTuple):
    actor: Actor
    name: str
    arguments: Mapping[str, Any]
    is_ok: bool
    output: str | None


@metric("tau2_reward", binary=True, version=2, fields=_FIELDS)
def tau2_reward(
    task: JsonValue, turns: JsonValue = None, status: str = "ok", error_kind: str | None = None, judge: JsonValue = None
) -> Score:
    """1 where all parts of a task's ``reward_basis`` hold, else 0; by default ``DB`` and ``COMMUNICATE`` (tau²-bench).

    For samples of the loader `tau2_domain`, the evaluator of the user's checkout decides. For the domain `mock`, the
    calls that the tools answered are made again in fresh databases. ``DB``: the agent's database equals that after
    the gold actions; that of the user too, where some are the user's. ``ENV_ASSERTION``: the task's checks hold.
    ``ACTION``: each gold action was called, with equal values of the arguments in ``compare_args``, by default of all
    that the call has. ``COMMUNICATE``: each text of ``communicate_info`` occurs in a message of the agent, without
    regard to case and to commas of the message. ``NL_ASSERTION``: the judge's score is 1; without sentences in
    ``nl_assertions`` it holds. A conversation at a limit has 0.
    """
    if not isinstance(task, dict):
        return Score.unscored("the sample does not come from a loader of tau2-bench")
    criteria: Mapping[str, Any] = task.get("evaluation_criteria") or {}
    basis = criteria.get("reward_basis") or _USUAL_BASIS
    if unknown := [name for name in basis if name not in _PARTS]:
        return Score.unscored(f"the reward of the task depends on {unknown[0]}, which is not computed here")
    if status == "limit" or error_kind == "same_calls":
        return Score(0.0, extracted="limit")
    if checkout := task.get("checkout"):
        try:
            failed = _failed_by_checkout(checkout, task, turns)
        except (InputError, SessionLost) as error:
            return Score.unscored(str(error))
    else:
        made = [call[:3] for _, calls in _made(turns) for call in calls if call.is_ok]
        parts = {
            "DB": lambda: _same_databases(task, criteria, made),
            "ENV_ASSERTION": lambda: _assertions_hold(task, criteria, made),
            "ACTION": lambda: _actions_made(task, criteria, made),
            "COMMUNICATE": lambda: _communicated(task, criteria, turns),
        }
        failed = [name for name in basis if name in parts and not parts[name]()]
    if "NL_ASSERTION" in basis and criteria.get("nl_assertions") and not failed:
        if not isinstance(judge, int | float):
            return Score.unscored("the sentences of the task need a judge's score", reason="no_verdict")
        failed = [] if judge == 1 else ["NL_ASSERTION"]
    return Score(float(not failed), extracted=", ".join(failed) or None)


def _made(turns: JsonValue) -> Iterator[tuple[Mapping[str, Any], list[_Answered]]]:
    """Each turn, and its calls that a tool answered, in order."""
    for turn in turns if isinstance(turns, list) else ():
        if not isinstance(turn, dict):
            continue
        text = turn.get("tool_calls")
        made = decode(text) if isinstance(text, str) else []
        outputs = zip_longest(turn.get("tool_statuses") or (), turn.get("tool_outputs") or ())
        calls = []
        for item, (status, output) in zip(made if isinstance(made, list) else [], outputs, strict=False):
            # What a model calls a tool with may be anything; a tool answers only to an object.
            if (function := function_of(item)) is not None:
                calls.append(_Answered(_actor(turn), *function, status == "ok", output))
        yield turn, calls


def _actor(turn: Mapping[str, Any]) -> Actor:
    return "user" if turn.get("actor") == "user" else "assistant"


def _failed_by_checkout(checkout: Mapping[str, Any], task: Mapping[str, Any], turns: JsonValue) -> list[str]:
    """The parts that do not hold by the published evaluator.

    Raises:
        InputError: there is no checkout, it is another one, or it does not run.
        SessionLost: it took too long.
    """
    domain = checkout["domain"]
    if tau2_checkout.identity(domain) != checkout["code"]:
        raise InputError("the checkout of tau2-bench has changed since the tasks were read; run the task again")
    own = {name: value for name, value in task.items() if name != "checkout"}
    return [part for part, reward in tau2_checkout.rewards(domain, own, list(_messages(turns))).items() if reward < 1]


def _messages(turns: JsonValue) -> Iterator[dict[str, Any]]:
    """A conversation in the form of tau²-bench."""
    for turn, calls in _made(turns):
        requests = [
            {"id": str(number), "name": made.name, "arguments": made.arguments, "requestor": made.actor}
            for number, made in enumerate(calls)
        ]
        yield {"role": _actor(turn), "content": turn.get("answer") or None, "tool_calls": requests or None}
        for number, made in enumerate(calls):
            answered = {"content": made.output, "requestor": made.actor, "error": not made.is_ok}
            yield {"role": "tool", "id": str(number), **answered}


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
