"""The verdict of BFCL v4 on a conversation of several turns."""

from collections.abc import Mapping
from typing import Any

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.data.bfcl import Simulation, gold_call
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.trajectories import function_of

_FIELDS = {"task": "sample.metadata.bfcl", "turns": "model_output.turns"}
# The next step that calls functions in a turn is the last of the conversation (`MAXIMUM_STEP_LIMIT`).
_MOST_STEPS = 20
_Call = tuple[str, Mapping[str, Any]]


@metric("bfcl_multi_turn", binary=True, version=2, fields=_FIELDS)
def bfcl_multi_turn(task: JsonValue, turns: JsonValue = None) -> Score:
    """1 where each turn of a task of BFCL's categories of several turns was carried out, else 0.

    The calls of the model and the published ones are made again, turn by turn. After each turn with published calls,
    the model has made calls in it, all public attributes of the simulated objects are equal, and each output of the
    published calls of the turn is among the model's outputs so far, each as often, in any order. A turn without
    published calls may have some. A conversation ends with the 21st step with calls in a turn; one that ended before
    its last turn, there or at another limit, is 0. Needs the package bfcl-eval.
    """
    if not isinstance(task, dict):
        return Score.unscored("the sample does not come from the loader bfcl")
    reason = _fault(task, _by_turn(turns))
    return Score(float(reason is None), extracted=reason)


def _fault(task: Mapping[str, Any], by_turn: list[list[list[_Call]]]) -> str | None:
    """What was wrong first; None where nothing was."""
    model, gold = Simulation(task), Simulation(task)
    outputs: list[str] = []
    if len(by_turn) != len(task["ground_truth"]):
        return "force_terminated"
    for number, (steps, published) in enumerate(zip(by_turn, task["ground_truth"], strict=True), 1):
        outputs += [model.call(name, (), arguments)[0] for calls in steps for name, arguments in calls]
        wanted = [gold.call(*gold_call(text))[0] for text in published]
        if not published:
            continue
        if not steps:
            return f"turn {number}: no call"
        if not model.equals(gold):
            return f"turn {number}: state"
        left = list(outputs)
        for text in wanted:
            if text not in left:
                return f"turn {number}: output"
            left.remove(text)
    return None


def _by_turn(turns: JsonValue) -> list[list[list[_Call]]]:
    """For each turn of the user, the model's steps with calls."""
    by_turn: list[list[list[_Call]]] = [[]]
    for turn in turns if isinstance(turns, list) else ():
        if not isinstance(turn, dict):
            continue
        if turn.get("actor") == "user":
            by_turn.append([])
        elif calls := _calls(turn.get("tool_calls")):
            by_turn[-1].append(calls)
            if len(by_turn[-1]) > _MOST_STEPS:
                break
    return by_turn


def _calls(text: Any) -> list[_Call]:
    made = decode(text) if isinstance(text, str) else []
    calls = map(function_of, made if isinstance(made, list) else ())
    return [call for call in calls if call is not None]
