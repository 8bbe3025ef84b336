"""Promises of messages and probabilities on pages: whatever data hold is shown."""

from typing import Any

import pytest

from gage_eval.base.canonical import decode
from gage_eval.report.messages import Message, candidates, pretty, shown_messages, tokens, tool_calls

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
