"""Promises of messages and probabilities on pages: whatever data hold is shown."""

from typing import Any

import pytest

from gage_eval.base.canonical import decode
from gage_eval.report.messages import Message, candidates, conversation, pretty, shown_messages, tokens, tool_calls
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
    asked = [said("system", "s"), said("user", "e"), said("assistant", "x"), said("user", "1"), said("user", "2")]
    turns = [{"answer": "a", "reasoning": "because"}, {"answer": "b"}]
    shown = conversation(asked, turns)
    assert [(message.role, message.text) for message in shown[-3:]] == [
        ("user", "1"),
        ("answer", "because\na"),
        ("user", "2"),
    ]
    assert conversation(asked, turns[:1]) == asked, "the last answer stands by itself"


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


@pytest.mark.parametrize("long", [False, True])
def test_of_a_conversation_only_what_is_before_its_first_question_is_folded(long: bool) -> None:
    examples = [said("user", "example " * 40), said("assistant", "y" * 400)] * 3
    turns = [said("user", "1"), said("answer", "a" * (2_000 if long else 1)), said("user", "2")]
    before, shown = folded([*examples, *turns])
    assert [list(before), list(shown)] == [examples, turns]
    assert folded(turns) == ((), tuple(turns))
