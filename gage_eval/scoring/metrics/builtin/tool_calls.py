"""Metrics on tool calls and on the trajectories they make."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Literal, TypeAlias

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.trajectories import Call, as_accepted, calls_text, is_subsequence, read_steps, shared

Arguments: TypeAlias = Literal["exact", "accepted", "ignore"]
_Steps: TypeAlias = list[list[Call]]
_Compare: TypeAlias = Callable[[_Steps, _Steps], Mapping[str, float]]

_FIELDS = {
    "golden": "sample.golden_trajectories",
    "tool_calls": "model_output.tool_calls",
    "turns": "model_output.turns",
}


@metric("tool_call_match", binary=True, version=2, fields=_FIELDS)
def tool_call_match(
    golden: JsonValue,
    tool_calls: JsonValue = None,
    turns: JsonValue = None,
    *,
    arguments: Arguments = "exact",
    order: Literal["any", "same"] = "any",
) -> Score:
    """1 when the first calls of the response are the first of a golden trajectory, else 0.

    The first calls are those of the first message, or turn, that calls tools. Several of them may come in
    any order (``order: any``) or must be in the ``same`` order. Arguments compare as JSON values; ``arguments: ignore``
    compares only names; with ``arguments: accepted`` a golden call lists the accepted values of each parameter, as
    BFCL's possible answers do. Calls in an unknown form are unparsed. Of several golden trajectories the best counts.
    """

    def compare(steps: _Steps, gold: _Steps) -> dict[str, float]:
        first, wanted = steps[0] if steps else [], gold[0] if gold else []
        same = first == wanted if order == "same" else sorted(first) == sorted(wanted)
        return {"score": float(same)}

    return _best(golden, tool_calls, turns, arguments, compare)


@metric(
    "trajectory_match",
    value=("exact", "in_order", "any_order", "subset", "precision", "recall"),
    binary=("exact", "in_order", "any_order", "subset"),
    bounds=(0, 1),
    version=3,
    fields=_FIELDS,
)
def trajectory_match(
    golden: JsonValue, tool_calls: JsonValue = None, turns: JsonValue = None, *, arguments: Arguments = "exact"
) -> Score:
    """Compare the calls of all turns with those of a golden trajectory.

    ``exact``: the same calls in the same order. ``in_order``: the golden calls occur in order, with other calls
    allowed between them. ``any_order``: all golden calls occur (a superset). ``subset``: no other call occurs.
    ``precision``: share of the calls that are golden; without calls it is 1 where none are golden, else 0. ``recall``:
    share of the golden calls that were made. Repeated calls count repeatedly. Arguments as in ``tool_call_match``. Of
    several golden trajectories the best counts, for each number.
    """
    return _best(golden, tool_calls, turns, arguments, _compared)


@metric(
    "tool_use",
    value=("calls", "rounds", "repeated", "forbidden"),
    bounds=(0, None),
    version=1,
    fields={name: _FIELDS[name] for name in ("tool_calls", "turns")},
)
def tool_use(tool_calls: JsonValue = None, turns: JsonValue = None, *, forbidden: Sequence[str] = ()) -> Score:
    """How an answer used its tools.

    ``calls``: how many it made. ``rounds``: how many turns made them. ``repeated``: calls that equal an earlier one, in
    name and arguments. ``forbidden``: calls of the tools that ``forbidden`` names. Calls in an unknown form are
    unparsed.
    """
    try:
        steps = read_steps(turns or [{"tool_calls": tool_calls}])
    except ValueError as error:
        return Score.unparsed(str(error), value=dict.fromkeys(("calls", "rounds", "repeated", "forbidden"), 0.0))
    calls = [call for step in steps for call in step]
    numbers = {
        "calls": len(calls),
        "rounds": len(steps),
        "repeated": len(calls) - len(set(calls)),
        "forbidden": sum(call.name in forbidden for call in calls),
    }
    return Score({name: float(number) for name, number in numbers.items()}, extracted=calls_text(turns or []))


def _compared(steps: _Steps, gold_steps: _Steps) -> dict[str, float]:
    calls = [call for step in steps for call in step]
    gold = [call for step in gold_steps for call in step]
    common = shared(calls, gold)
    return {
        "exact": float(calls == gold),
        "in_order": float(is_subsequence(gold, calls)),
        "any_order": float(common == len(gold)),
        "subset": float(common == len(calls)),
        "precision": common / len(calls) if calls else float(not gold),
        "recall": common / len(gold) if gold else 1.0,
    }


def _best(golden: JsonValue, tool_calls: JsonValue, turns: JsonValue, arguments: Arguments, compare: _Compare) -> Score:
    """The best of each number over the golden trajectories."""
    if not isinstance(golden, list) or not golden:
        return Score.unscored("there is no golden trajectory")
    try:
        trajectories = [_prepared(read_steps(messages), arguments) for messages in golden]
    except ValueError as error:
        return Score.unscored(f"golden trajectory: {error}")
    try:
        # The last turn is the response itself.
        steps = _prepared(read_steps(turns or [{"tool_calls": tool_calls}]), arguments)
    except ValueError as error:
        return Score.unparsed(str(error), value=dict.fromkeys(compare([], []), 0.0))
    numbers = [
        compare(as_accepted(steps, list(chain(*trajectory))) if arguments == "accepted" else steps, trajectory)
        for trajectory in trajectories
    ]
    called = ", ".join(call.name for step in steps for call in step)
    return Score({key: max(number[key] for number in numbers) for key in numbers[0]}, extracted=called)


def _prepared(steps: _Steps, arguments: Arguments) -> _Steps:
    return steps if arguments != "ignore" else [[call.bare() for call in step] for step in steps]
