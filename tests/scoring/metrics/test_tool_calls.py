"""Tool calls are compared with golden trajectories as values, in the ways that are asked for."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vectors import score_one

ALL = dict.fromkeys(("exact", "in_order", "any_order", "subset", "precision", "recall"), 1.0)


def _call(name: str, arguments: Any = None) -> dict[str, Any]:
    """A call in OpenAI's form; arguments are made JSON text."""
    text = "" if arguments is None else orjson.dumps(arguments).decode()
    return {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": text}}


def _trajectory(*steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages of a golden trajectory, one assistant message a step, between words and tool results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
    for calls in steps:
        messages.append({"role": "assistant", "content": [], "tool_calls": calls})
        messages.append({"role": "tool", "content": [{"type": "text", "text": "done"}], "tool_call_id": "x"})
    return messages


def _golden(*names: str) -> dict[str, Any]:
    return {"golden_trajectories": [_trajectory(*[[_call(name)] for name in names])]}


def _response(*steps: list[dict[str, Any]]) -> dict[str, Any]:
    """A response: one step's calls, or turns where there are several."""
    texts = [orjson.dumps(calls).decode() for calls in steps]
    last = texts[-1] if texts else None
    return {"tool_calls": last, "turns": [{"tool_calls": text} for text in texts] if len(texts) > 1 else None}


def _named(names: str) -> dict[str, Any]:
    return _response(*[[_call(name)] for name in names])


@pytest.mark.parametrize(
    ("gold", "made", "expected"),
    [
        ("ab", "ab", ALL),
        ("ab", "ba", {**ALL, "exact": 0.0, "in_order": 0.0}),
        ("ab", "axb", {**ALL, "exact": 0.0, "subset": 0.0, "precision": 2 / 3}),
        ("ab", "a", {"exact": 0.0, "in_order": 0.0, "any_order": 0.0, "subset": 1.0, "precision": 1.0, "recall": 0.5}),
        ("aa", "a", {"exact": 0.0, "in_order": 0.0, "any_order": 0.0, "subset": 1.0, "precision": 1.0, "recall": 0.5}),
        ("a", "aa", {**ALL, "exact": 0.0, "subset": 0.0, "precision": 0.5}),
        ("ab", "", {**dict.fromkeys(ALL, 0.0), "subset": 1.0}),
        ("", "", ALL),
        ("", "a", {**ALL, "exact": 0.0, "subset": 0.0, "precision": 0.0}),
    ],
)
def test_trajectories_are_compared_in_six_ways(gold: str, made: str, expected: dict[str, float]) -> None:
    assert score_one("trajectory_match", _golden(*gold), _named(made))["values"] == pytest.approx(expected)


def test_of_several_golden_trajectories_the_best_counts() -> None:
    fields = {"golden_trajectories": [_trajectory([_call("x")]), _trajectory([_call("a")])]}
    assert score_one("trajectory_match", fields, _named("a"))["values"] == ALL


@pytest.mark.parametrize(
    ("made", "right"),
    [
        ({"city": "Rome", "days": 3}, 1.0),
        ({"days": 3.0, "city": "Rome"}, 1.0),
        ({"city": "Rome"}, 0.0),
        ({"city": "Rome", "days": "3"}, 0.0),
        ({"city": "Rome", "days": True}, 0.0),
    ],
)
def test_arguments_are_compared_as_values(made: dict[str, Any], right: float) -> None:
    fields = {"golden_trajectories": [_trajectory([_call("weather", {"city": "Rome", "days": 3})])]}
    response = _response([_call("weather", made)])
    assert score_one("tool_call_match", fields, response)["values"] == {"score": right}
    assert score_one("tool_call_match", fields, response, {"arguments": "ignore"})["values"] == {"score": 1.0}


def test_the_calls_of_one_step_may_come_in_any_order_unless_asked_otherwise() -> None:
    fields = {"golden_trajectories": [_trajectory([_call("a"), _call("b")], [_call("c")])]}
    response = _response([_call("b"), _call("a")])
    assert score_one("tool_call_match", fields, response)["values"] == {"score": 1.0}
    assert score_one("tool_call_match", fields, response, {"order": "same"})["values"] == {"score": 0.0}


def test_plain_calls_and_objects_as_arguments_are_read() -> None:
    fields = {"golden_trajectories": [_trajectory([_call("a", {"x": 1})])]}
    response = {"tool_calls": '[{"name": "a", "arguments": {"x": 1}}]'}
    assert score_one("tool_call_match", fields, response)["values"] == {"score": 1.0}


@pytest.mark.parametrize(
    "tool_calls", ['[{"function": {"arguments": "{}"}}]', '["a"]', '[{"name": 3}]', '{"name": "a"}']
)
def test_calls_that_cannot_be_read_are_unparsed(tool_calls: str) -> None:
    scored = score_one("trajectory_match", _golden("a"), {"tool_calls": tool_calls})
    assert (scored["status"], scored["values"]) == ("unparsed", dict.fromkeys(ALL, 0.0))


def test_arguments_that_are_no_json_are_a_wrong_call_not_a_crash() -> None:
    broken = {"tool_calls": '[{"function": {"name": "a", "arguments": "{oops"}}]'}
    assert score_one("tool_call_match", _golden("a"), broken)["values"] == {"score": 0.0}


def test_a_sample_without_golden_trajectories_is_unscored() -> None:
    assert score_one("tool_call_match", {}, _named("a"))["status"] == "unscored"


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_a_stricter_comparison_implies_the_looser_ones(gold: str, made: str) -> None:
    values = score_one("trajectory_match", _golden(*gold), _named(made))["values"]
    assert values["exact"] <= values["in_order"] <= values["any_order"]
    assert (values["any_order"] == 1.0) == (values["recall"] == 1.0)
    assert not made or (values["subset"] == 1.0) == (values["precision"] == 1.0)


def test_how_tools_were_used_is_counted() -> None:
    response = _response([_call("a"), _call("b")], [_call("a")], [_call("a", {"x": 1})])
    values = score_one("tool_use", {}, response, {"forbidden": ["b", "c"]})["values"]
    assert values == {"calls": 4, "rounds": 3, "repeated": 1, "forbidden": 1}
    assert set(score_one("tool_use", {}, {"answer": "2"})["values"].values()) == {0}
    assert score_one("tool_use", {}, {"tool_calls": '["a"]'})["status"] == "unparsed"


ACCEPTED = {
    "city": ["Rome", "Rome, Italy"],
    "days": [2, 3],
    "unit": ["", "C"],
    "at": [{"hour": [9], "zone": ["", "Z"]}],
}


@pytest.mark.parametrize(
    ("made", "is_accepted"),
    [
        ({"city": "rome italy", "days": 2.0, "at": {"hour": 9}}, True),
        ({"city": "Rome", "days": 3, "unit": "c", "at": {"hour": 9, "zone": "Z"}}, True),
        ({"city": "Paris", "days": 2, "at": {"hour": 9}}, False),
        ({"city": "Rome", "days": "2", "at": {"hour": 9}}, False),
        ({"city": "Rome", "at": {"hour": 9}}, False),
        ({"city": "Rome", "days": 2, "at": {"hour": 9}, "more": 1}, False),
        ({"city": "Rome", "days": 2, "at": {"hour": 10}}, False),
        ({"city": "Rome", "days": 2, "at": 9}, False),
        (ACCEPTED, False),
        ("Rome", False),
    ],
)
def test_accepted_arguments_are_those_that_bfcl_accepts(made: Any, is_accepted: bool) -> None:
    sample = {"golden_trajectories": [_trajectory([_call("weather", ACCEPTED)])]}
    score = score_one("trajectory_match", sample, _response([_call("weather", made)]), {"arguments": "accepted"})
    assert score["values"]["exact"] == float(is_accepted)


def test_each_accepting_call_counts_once_and_repeated_ones_are_others() -> None:
    wide, narrow = _call("f", {"x": [1, 2]}), _call("f", {"x": [1]})
    sample = {"golden_trajectories": [_trajectory([wide], [narrow])]}

    def numbers(*made: int) -> dict[str, float]:
        response = _response(*[[_call("f", {"x": x})] for x in made])
        return dict(score_one("trajectory_match", sample, response, {"arguments": "accepted"})["values"])

    assert numbers(2, 1) == ALL
    assert numbers(2, 1, 2)["precision"] == 2 / 3
    assert numbers(2, 2)["recall"] == 0.5
