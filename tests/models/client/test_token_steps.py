"""Promises of stored tokens: every form of log-probabilities is read, and a hostile one stores nothing wrong."""

from typing import Any

import pytest

from gage_eval.base.canonical import decode, encode
from gage_eval.models.client.token_steps import Step, steps_in, store_tokens
from gage_eval.models.client.types import Response

CHAT = {
    "content": [
        {
            "token": "A",
            "logprob": -0.1,
            "top_logprobs": [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2}],
        },
        {"token": "!", "logprob": -0.5},
    ]
}
COMPLETION = {"tokens": ["A", "!"], "token_logprobs": [-0.1, -0.5], "top_logprobs": [{"A": -0.1, "B": -2}, None]}


@pytest.mark.parametrize("logprobs", [CHAT, COMPLETION])
def test_both_forms_of_openai_are_the_same_tokens(logprobs: Any) -> None:
    response = Response("ok", answer="A!", logprobs=encode(logprobs).decode())
    store_tokens(response, {"token_logprobs": 2})
    assert response.tokens == [
        {"token": "A", "logprob": -0.1, "other": "B", "other_logprob": -2.0},
        {"token": "!", "logprob": -0.5, "other": None, "other_logprob": None},
    ]
    assert response.logprobs is None
    again = Response.from_bytes(response.to_bytes())
    assert again.tokens == response.tokens
    assert [Step.of_row(row) for row in again.tokens or ()] == steps_in(logprobs)


def test_log_probabilities_that_were_asked_for_by_their_own_name_stay() -> None:
    text = encode(CHAT).decode()
    both = Response("ok", answer="A!", logprobs=text)
    store_tokens(both, {"token_logprobs": 2, "logprobs": True})
    assert both.logprobs == text
    assert both.tokens is not None
    alone = Response("ok", answer="A!", logprobs=text)
    store_tokens(alone, {"logprobs": True})
    assert (alone.logprobs, alone.tokens) == (text, None)


@pytest.mark.parametrize(
    "logprobs",
    [
        [],
        {"content": "A"},
        {"content": [1, None]},
        {"tokens": ["A"], "token_logprobs": []},
        {"tokens": "A", "token_logprobs": 3},
        {"choices": [{"ll": -1}]},
    ],
)
def test_what_holds_no_tokens_stores_none(logprobs: Any) -> None:
    assert steps_in(logprobs) == []


def test_a_value_that_is_not_a_number_is_left_out() -> None:
    content = [{"token": "\ud800", "logprob": True, "top_logprobs": [{"token": "B", "logprob": -1e400}]}]
    (step,) = steps_in({"content": content})
    assert step.as_row() == {"token": "\ud800", "logprob": None, "other": None, "other_logprob": None}


def test_a_record_of_an_earlier_version_has_no_tokens() -> None:
    plain, full = Response("ok", answer="A"), Response("ok", answer="A", prompt_digest="d")
    assert Response.from_bytes(plain.to_bytes()).tokens is None
    assert Response.from_bytes(full.to_bytes()).prompt_digest == "d"
    assert len(decode(full.to_bytes())) - len(decode(plain.to_bytes())) == 6, "an answer without them is not longer"
