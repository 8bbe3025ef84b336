"""Promises of messages and probabilities on pages: whatever data hold is shown."""

from typing import Any

import pytest

from gage_eval.base.canonical import decode
from gage_eval.report.messages import (
    Message,
    answer_step,
    candidates,
    conversation,
    first_difference,
    pretty,
    shown_messages,
    tokens,
    tool_calls,
)
from gage_eval.report.sample_view import folded

HUGE = 10**400


@pytest.mark.parametrize("levels", [300, 800])
def test_whatever_a_model_gives_as_arguments_is_shown(levels: int) -> None:
    text = '{"a":' * levels + "1" + "}" * levels
    (call,) = tool_calls([{"function": {"name": "f", "arguments": text}}])
    assert decode(call.arguments) == decode(text)


def test_what_is_nested_too_deep_is_one_sentence() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert "nested too deep" in pretty(value)


def test_log_probabilities_that_no_float_can_hold_are_shown() -> None:
    (token,) = tokens(
        {"content": [{"token": "a", "logprob": -HUGE, "top_logprobs": [{"token": "b", "logprob": HUGE}]}]}
    )
    assert token.tip == "0 · b 1"
    assert candidates({"choices": [{"ll": HUGE}]}, ["a"])[0].ll == "–"


def test_a_message_as_text_has_its_words_markers_for_media_and_calls_where_it_has_no_words() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    call = {"function": {"name": "add", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    assert [message.text for message in shown_messages(messages)] == ["What is it?\n[image]", "add({})"]
    assert Message.plain("user", "Why?").text == "Why?"


def said(role: str, text: str) -> Message:
    return Message.plain(role, text)


def test_the_answers_of_a_conversation_stand_after_what_they_answer() -> None:
    messages = [said("system", "s"), said("user", "e"), said("assistant", "x"), said("user", "1"), said("user", "2")]
    turns = [{"answer": "a", "reasoning": "because"}, {"answer": "b"}]
    shown = conversation(messages, turns)
    assert [(message.role, message.text) for message in shown[-3:]] == [
        ("user", "1"),
        ("answer", "because\na"),
        ("user", "2"),
    ]
    assert conversation(messages, turns[:1]) == messages, "the last answer stands by itself"


def test_the_tool_calls_of_a_conversation_stand_after_its_question() -> None:
    call = {"function": {"name": "add", "arguments": "{}"}}
    shown = conversation([said("user", "1 + 1?")], [{"answer": "", "tool_calls": [call]}, {"answer": "2"}])
    assert [message.role for message in shown] == ["user", "answer"]
    assert shown[1].calls[0].name == "add"


def test_what_tools_answered_stands_after_the_turn_that_called_them() -> None:
    call = {"function": {"name": "add", "arguments": "{}"}}
    turn = {"answer": "", "tool_calls": [call, call], "tool_outputs": ["1", "2"]}
    shown = conversation([said("user", "1 + 1?")], [turn, {**turn, "tool_outputs": ["3"]}])
    assert [message.text for message in shown if message.role == "tool"] == ["1", "2", "3"]
    assert {message.name for message in shown if message.role == "tool"} == {"add"}
    assert [message.role for message in shown] == ["user", "answer", "tool", "tool", "tool"]


CALL = {"id": "1", "function": {"name": "add", "arguments": "{}"}}
TURN: dict[str, Any] = {"answer": "", "tool_calls": [CALL, CALL], "tool_outputs": ["1", "2"], "prompt_tokens": 1200}
LAST: dict[str, Any] = {"answer": "2", "reasoning": "because"}


def test_steps_are_numbered_and_say_what_they_took_and_where_they_came_from() -> None:
    turn = {**TURN, "completion_tokens": 7, "tool_statuses": ["ok", "error"]}
    took = {
        "latency_ms": 1500.0,
        "cost": 0.25,
        "source": "log",
        "tool_ms": [3.0, None],
        "tool_sources": ["journal", "run"],
    }
    _, answer, *outputs = conversation([said("user", "1 + 1?")], [turn, LAST], [took])
    assert [message.step for message in (answer, *outputs)] == [1, 2, 3]
    assert answer.facts == ("1,200 + 7 tokens", "1.50 s", "cost 0.25", "log")
    assert [message.facts for message in outputs] == [("3.0 ms", "journal"), ()]
    assert [message.failed for message in outputs] == [False, True]
    assert answer_step([turn, LAST]) == 4
    assert answer_step([turn, {**LAST, "tool_outputs": ["2"]}, {"answer": "thanks", "actor": "user"}]) == 4


@pytest.mark.parametrize(
    ("others", "step"),
    [
        ([TURN, LAST], None),
        ([{**TURN, "tool_calls": [{**CALL, "id": "x"}, CALL]}, {"answer": "2"}], None),
        ([{**TURN, "answer": "Hm."}, LAST], 1),
        ([{**TURN, "tool_outputs": ["1", "3"]}, LAST], 3),
        ([{**TURN, "tool_outputs": ["1"]}, LAST], 3),
        ([TURN, {"answer": "3"}], 4),
        ([TURN], 4),
        ([TURN, LAST, LAST], 5),
        ([], 1),
    ],
)
def test_the_first_step_in_which_two_episodes_differ_is_named(others: list[dict[str, Any]], step: int | None) -> None:
    assert first_difference([TURN, LAST], others) == step
    assert first_difference(others, [TURN, LAST]) == step


@pytest.mark.parametrize("long", [False, True])
def test_of_a_conversation_only_what_is_before_its_first_question_is_folded(long: bool) -> None:
    examples = [said("user", "example " * 40), said("assistant", "y" * 400)] * 3
    turns = [said("user", "1"), said("answer", "a" * (2_000 if long else 1)), said("user", "2")]
    before, shown = folded([*examples, *turns])
    assert [list(before), list(shown)] == [examples, turns]
    assert folded(turns) == ((), tuple(turns))


def test_a_video_that_is_sent_as_frames_shows_them() -> None:
    frames = [f"media://sha256/{digit * 64}" for digit in "ab"]
    video = {"type": "video_url", "video_url": {"url": frames[0], "media_type": "video/jpeg", "frames": frames}}
    (message,) = shown_messages([{"role": "user", "content": [video, {"type": "text", "text": "What moves?"}]}])
    assert [(part.kind, part.text) for part in message.parts] == [
        ("image", f"/media/{'a' * 64}"), ("image", f"/media/{'b' * 64}"), ("text", "What moves?")
    ]  # fmt: skip
