"""A streamed answer is the one that would have come in one piece, wherever its bytes are cut."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.models.client.streams import Stream, StreamError

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


def events(*chunks: dict[str, Any], done: bool = True) -> bytes:
    lines = [b"data: " + orjson.dumps(chunk) + b"\r\n\r\n" for chunk in chunks]
    return b": a comment\n\n" + b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def read(data: bytes, size: int = 7) -> tuple[dict[str, Any], Stream]:
    stream = Stream()
    for start in range(0, len(data), size):
        stream.feed(data[start : start + size])
    reply: dict[str, Any] = orjson.loads(stream.reply())
    return reply, stream


@given(st.lists(st.text(max_size=5), max_size=8), st.integers(1, 50))
def test_pieces_join_to_the_text(pieces: list[str], size: int) -> None:
    chunks = [delta(content=piece.encode(errors="replace").decode()) for piece in pieces]
    reply, stream = read(events(*chunks, delta("stop"), {"choices": [], "usage": USAGE}), size)
    text = "".join(piece.encode(errors="replace").decode() for piece in pieces)
    assert reply["choices"][0]["message"]["content"] == (text if pieces else None)
    assert (reply["choices"][0]["finish_reason"], reply["usage"], reply["model"]) == ("stop", USAGE, "m")
    assert (stream.first_token_at is None) == (text == "")


def test_a_tool_call_in_pieces_is_one_call() -> None:
    def call(index: int, **function: str) -> dict[str, Any]:
        return {"index": index, "function": function}

    chunks = [
        delta(tool_calls=[{**call(0, name="add", arguments=""), "id": "c1", "type": "function"}]),
        delta(tool_calls=[call(0, arguments='{"a"')]),
        delta(tool_calls=[call(0, arguments=": 1}"), {**call(1, name="sub", arguments="{}"), "id": "c2"}]),
        delta("tool_calls"),
    ]
    message = read(events(*chunks))[0]["choices"][0]["message"]
    assert [(c["id"], c["function"]) for c in message["tool_calls"]] == [
        ("c1", {"name": "add", "arguments": '{"a": 1}'}),
        ("c2", {"name": "sub", "arguments": "{}"}),
    ]


def test_logprobs_and_reasoning_come_together_too() -> None:
    one = {**delta(content="a", reasoning_content="hm")}
    one["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -1.0}]}
    two = delta(content="b", reasoning_content="m")
    two["choices"][0]["logprobs"] = {"content": [{"token": "b", "logprob": -2.0}]}
    choice = read(events(one, two, delta("stop")))[0]["choices"][0]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["a", "b"]
    assert choice["message"] == {"content": "ab", "reasoning_content": "hmm"}


def test_a_text_completion_has_its_text() -> None:
    chunks = [{"choices": [{"index": 0, "text": word}]} for word in ("so ", "it ", "is")]
    end = {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}
    choice = read(events(*chunks, end))[0]["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("so it is", "length")


@pytest.mark.parametrize(
    "data",
    [
        events(delta(content="half an answ"), done=False),
        b"",
        b"data: {\n\n",
        b"data: [1]\n\n",
        events({"error": {"message": "out of memory"}}),
        events(delta(tool_calls=[1])),
    ],
)
def test_a_stream_that_ends_early_or_is_none_is_no_answer(data: bytes) -> None:
    with pytest.raises(StreamError):
        read(data)
