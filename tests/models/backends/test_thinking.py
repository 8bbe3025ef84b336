"""Thinking text is apart from the answer; an unclosed thought leaves none."""

import pytest
from support.calls import ask, chat, connect
from support.endpoint import mock_endpoint

from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.thinking import cut_at


def test_the_first_stop_string_counts_and_empty_ones_do_not() -> None:
    assert cut_at("a\n\nQ: b END", ["END", "", "Q:"]) == "a\n\n"
    assert cut_at("a", ["b"]) == "a"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_thinks_is_taken_apart(stream: bool) -> None:
    with mock_endpoint(thinking="<think> hm </think> ") as endpoint, Runtime() as runtime:
        (response,) = ask(runtime, connect(runtime, endpoint.url, stream=stream), [chat(1)])
    assert (response.status, response.answer, response.reasoning) == ("ok", "ANSWER: 2", "hm")


def test_an_answer_that_never_stops_thinking_is_truncated() -> None:
    with mock_endpoint(thinking="<think> hm ") as endpoint, Runtime() as runtime:
        (response,) = ask(runtime, connect(runtime, endpoint.url), [chat(1)])
    assert (response.status, response.answer, response.reasoning) == ("truncated", "", "hm ANSWER: 2")


def test_stop_strings_are_applied_after_the_thinking_and_not_sent() -> None:
    with mock_endpoint(thinking="a: b </think>", keep_bodies=True) as endpoint, Runtime() as runtime:
        backend = connect(runtime, endpoint.url, stop_after_thinking=True)
        request = chat(1, stop=[":"])
        (response,) = ask(runtime, backend, [request])
        assert "stop" in backend.body(request)
        assert "stop" not in endpoint.stats()["bodies"][0]
    assert (response.answer, response.reasoning) == ("ANSWER", "a: b")


def test_a_stream_times_its_first_token_and_asks_for_the_same() -> None:
    with mock_endpoint(latency_ms=5, answer_words=20) as endpoint, Runtime() as runtime:
        plain, streamed = (connect(runtime, endpoint.url, stream=stream) for stream in (False, True))
        assert plain.body(chat(1)) == streamed.body(chat(1))
        assert plain.identity() == streamed.identity()
        (whole,), (two,) = ask(runtime, plain, [chat(1)]), ask(runtime, streamed, [chat(1)])
    assert (whole.answer, whole.prompt_tokens, whole.completion_tokens) == (
        two.answer,
        two.prompt_tokens,
        two.completion_tokens,
    )
    assert whole.ttft_ms is None
    assert two.ttft_ms is not None
    assert two.latency_ms is not None
    assert 0 < two.ttft_ms <= two.latency_ms


def test_what_a_model_may_think_is_part_of_every_body() -> None:
    with Runtime() as runtime:
        backend = connect(
            runtime,
            "http://127.0.0.1:9/v1",
            reasoning_effort="low",
            thinking_budget=64,
            thinking_budget_field="thinking_token_budget",
        )
        body = backend.body(chat(1))
    assert (body["reasoning_effort"], body["thinking_token_budget"]) == ("low", 64)
