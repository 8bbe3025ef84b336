"""Episodes: several calls for one row, and keys that tell requests apart."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.base.canonical import digest
from gage_eval.engine.episodes import multi_turn, response_key
from gage_eval.models.client.types import Request, Response

MODEL = digest("a model")


class Told:
    """Gives one response after the other and remembers the requests."""

    def __init__(self, *responses: Response) -> None:
        self._responses = list(responses)
        self.requests: list[Request] = []

    async def generate(self, request: Request) -> Response:
        self.requests.append(request)
        return self._responses.pop(0)


def conversation(*messages: tuple[str, str]) -> Request:
    return Request(
        "turns", messages=[{"role": role, "content": text} for role, text in messages], sample_id="s", replicate=2
    )


def said(request: Request) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in request.messages or []]


def test_each_turn_is_asked_with_the_answers_before_it() -> None:
    calls = Told(Response("ok", answer="one"), Response("truncated", answer="two"))
    outcome = asyncio.run(multi_turn(calls, conversation(("system", "be brief"), ("user", "a"), ("user", "b"))))
    assert [said(request) for request in calls.requests] == [
        [("system", "be brief"), ("user", "a")],
        [("system", "be brief"), ("user", "a"), ("assistant", "one"), ("user", "b")],
    ]
    assert {request.kind for request in calls.requests} == {"chat"}
    assert {(request.sample_id, request.replicate) for request in calls.requests} == {("s", 2)}
    assert [turn.answer for turn in outcome.turns] == ["one", "two"]
    assert (outcome.response.status, outcome.source) == ("truncated", "sent")


def test_a_row_took_what_its_turns_took() -> None:
    first = Response("ok", answer="one", prompt_tokens=3, completion_tokens=1, latency_ms=5.0, ttft_ms=2.0, attempts=2)
    first.errors = ["500"]
    last = Response("ok", answer="two", prompt_tokens=7, completion_tokens=2, latency_ms=6.0, ttft_ms=1.0, attempts=1)
    outcome = asyncio.run(multi_turn(Told(first, last), conversation(("user", "a"), ("user", "b"))))
    row = outcome.response
    assert (row.answer, row.prompt_tokens, row.completion_tokens) == ("two", 10, 3)
    assert (row.latency_ms, row.ttft_ms, row.attempts, row.errors) == (11.0, 2.0, 3, ["500"])
    uncounted = Told(Response("ok", answer="one", prompt_tokens=3), Response("ok", answer="two"))
    row = asyncio.run(multi_turn(uncounted, conversation(("user", "a"), ("user", "b")))).response
    assert (row.prompt_tokens, row.completion_tokens) == (None, None)


def test_what_an_assistant_answered_already_is_shown_and_not_asked() -> None:
    calls = Told(Response("ok", answer="one"), Response("ok", answer="two"))
    example = [("user", "example"), ("assistant", "its answer")]
    outcome = asyncio.run(multi_turn(calls, conversation(*example, ("user", "a"), ("user", "b"))))
    assert [said(request) for request in calls.requests] == [
        [*example, ("user", "a")],
        [*example, ("user", "a"), ("assistant", "one"), ("user", "b")],
    ]
    assert [turn.answer for turn in outcome.turns] == ["one", "two"]


@pytest.mark.parametrize("status", ["error", "skipped"])
def test_a_turn_without_an_answer_ends_the_conversation_with_its_status(status: str) -> None:
    calls = Told(Response("ok", answer="one"), Response(status, error_kind="timeout"))
    outcome = asyncio.run(multi_turn(calls, conversation(("user", "a"), ("user", "b"), ("user", "c"))))
    assert len(calls.requests) == 2
    assert (outcome.response.status, outcome.response.error_kind) == (status, "timeout")


@pytest.mark.parametrize("messages", [(), (("system", "be brief"),)])
def test_a_conversation_that_asks_nothing_is_skipped(messages: tuple[tuple[str, str], ...]) -> None:
    calls = Told()
    outcome = asyncio.run(multi_turn(calls, conversation(*messages)))
    assert (outcome.response.status, outcome.response.error_kind, calls.requests) == ("skipped", "empty_prompt", [])


_asked = st.tuples(
    st.sampled_from([MODEL, digest("another model")]),
    st.binary(max_size=6),
    st.integers(0, 12),
    st.sampled_from(["", "turns", "1"]),
)


@given(_asked, _asked)
def test_keys_are_equal_exactly_when_all_that_is_asked_is(
    first: tuple[str, bytes, int, str], second: tuple[str, bytes, int, str]
) -> None:
    assert (response_key(*first) == response_key(*second)) == (first == second)


def test_a_key_is_the_same_in_every_process_and_version() -> None:
    assert (
        response_key(MODEL, b'{"messages":[]}', 1, "turns")
        == "be23ca80f3208bc592038ee3cd05a3480b00c54b68093473121bebb6403dde7b"
    )
