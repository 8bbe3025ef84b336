"""A streamed answer is the one that would have come in one piece, wherever its bytes are cut."""

import json
import re
import time
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gage_eval.models.backends.openai_http import read_chat, read_completion
from gage_eval.models.client.payload import Malformed
from gage_eval.models.client.streams import Stream

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}
BOM = b"\xef\xbb\xbf"


def events(*chunks: dict[str, Any], done: bool = True) -> bytes:
    lines = [b"data: " + orjson.dumps(chunk) + b"\r\n\r\n" for chunk in chunks]
    return b": a comment\n\n" + b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def read(data: bytes, size: int = 7) -> tuple[dict[str, Any], Stream]:
    stream = Stream()
    for start in range(0, len(data), size):
        stream.feed(data[start : start + size])
    return stream.reply(), stream


def answer(data: bytes, size: int = 7) -> str | None:
    return read_chat(read(data, size)[0]).answer


def browsers_events(data: bytes) -> list[bytes]:
    """The data of each event, by the algorithm of the standard; the last one needs no empty line here."""
    events, buffer = [], b""
    for line in [*re.split(b"\r\n|\n|\r", data.removeprefix(BOM)), b""]:
        name, _, value = line.partition(b":")
        if not line:
            if buffer:
                events.append(buffer.removesuffix(b"\n"))
            buffer = b""
        elif name == b"data":
            buffer += value.removeprefix(b" ") + b"\n"
    return events


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Valid streams of texts in every form that the standard allows."""
    end = draw(st.sampled_from([b"\n", b"\r", b"\r\n"]))
    out = [draw(st.sampled_from([b"", BOM])), draw(st.sampled_from([b"", b": hi" + end, b"retry: 5" + end + end]))]
    pieces = draw(st.lists(st.text(max_size=4), min_size=1, max_size=4))
    for chunk in (*(delta(content=piece.encode(errors="replace").decode()) for piece in pieces), delta("stop")):
        text = orjson.dumps(chunk, option=orjson.OPT_INDENT_2 if draw(st.booleans()) else 0)
        prefix = draw(st.sampled_from([b"data: ", b"data:"]))
        extra = draw(st.sampled_from([b"", b"event: message" + end, b"id: 7" + end, b"data" + end]))
        out.append(extra + b"".join(prefix + line + end for line in text.split(b"\n")) + end)
    out.append(b"data: [DONE]" + draw(st.sampled_from([b"", end, end + end, end * 2 + b"data: NO" + end])))
    return b"".join(out)


@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(streams(), st.integers(1, 40))
def test_a_stream_is_read_as_a_browser_reads_it(data: bytes, size: int) -> None:
    chunks = []
    for event in browsers_events(data):
        if event == b"[DONE]":
            break
        chunks.append(orjson.loads(event))
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert answer(data, size) == text


odd_values: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, 5, -1.5, 10**30, float("nan"), "", "x", [], [[]], ["a"], [5], {}, {"text": "t"}, {"a": {}}]
)
NAMES = ("content", "refusal", "reasoning", "tool_calls", "index", "function", "arguments", "text", "type")
fields = st.dictionaries(st.sampled_from(NAMES), odd_values | st.text(max_size=3), max_size=3)
messages = st.fixed_dictionaries(
    {},
    optional={
        "content": odd_values | st.lists(fields, max_size=2),
        "refusal": odd_values,
        "reasoning": odd_values,
        "tool_calls": odd_values | st.lists(fields | st.fixed_dictionaries({"function": fields}), max_size=2),
    },
)
choices = st.fixed_dictionaries(
    {},
    optional={
        "delta": messages | odd_values,
        "message": messages | odd_values,
        "text": odd_values,
        "finish_reason": odd_values,
        "logprobs": odd_values | fields,
        "index": odd_values,
    },
)
odd_events = st.fixed_dictionaries(
    {}, optional={"choices": odd_values | st.lists(choices, max_size=2), "usage": odd_values, "model": odd_values,
                  "error": odd_values}
)  # fmt: skip
lines = (
    odd_events.map(lambda value: b"data: " + json.dumps(value).encode())
    | st.sampled_from([b"data: [DONE]", b"data:", b"data: {", b"data: }", b"data: 5", BOM, b""])
    | st.binary(max_size=12)
)


@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(st.lists(lines, max_size=6), st.integers(1, 60))
def test_no_stream_does_more_than_be_malformed(lines: list[bytes], size: int) -> None:
    try:
        reply, _ = read(b"\n\n".join(lines), size)
        for reader in (read_chat, read_completion):
            reader(reply).to_bytes()
    except Malformed:
        pass


@settings(max_examples=300, deadline=None)
@given(messages.filter(lambda message: "tool_calls" not in message), st.sampled_from(["delta", "message"]))
@example({"content": [{"type": "text", "text": "yes"}]}, "delta")
@example({"content": [{"type": "image"}]}, "delta")
@example({"content": None, "refusal": ["no"]}, "delta")
def test_streamed_or_not_the_answer_is_the_same(message: dict[str, Any], name: str) -> None:
    def of(reply: Any) -> Any:
        try:
            response = read_chat(reply)
        except Malformed:
            return "malformed"
        return response.status, response.answer, response.reasoning

    chunk = {"choices": [{name: message, "finish_reason": "stop"}]}
    message = {"content": None, **message} if name == "delta" else message
    try:
        streamed = of(read(b"data: " + json.dumps(chunk).encode())[0])
    except Malformed:
        streamed = "malformed"
    assert streamed == of({"choices": [{"message": message, "finish_reason": "stop"}]})


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


def test_arguments_that_are_an_object_are_kept_as_they_are() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    message = read(events(delta("tool_calls", tool_calls=[call])))[0]["choices"][0]["message"]
    assert message["tool_calls"] == [call]


def test_logprobs_and_reasoning_come_together_too() -> None:
    first = {**delta(content="a", reasoning_content="hm")}
    first["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -1.0}]}
    two = delta(content="b", reasoning_content="m")
    two["choices"][0]["logprobs"] = {"content": [{"token": "b", "logprob": -2.0}]}
    end = delta("stop")
    end["choices"][0]["logprobs"] = {"content": None}
    choice = read(events(first, two, end))[0]["choices"][0]
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
        events(delta(content=[{"type": "text", "text": "yes"}]), delta("stop")),
        events({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}),
        events(delta(content="ye"), delta(content="s"), {"choices": [{"message": {"content": "yes"}}]}, delta("stop")),
        BOM + b"data: " + orjson.dumps(delta("stop", content="yes")) + b"\n\n",
        events(delta("stop", content="yes")) + events(delta(content=" NO")),
        events(delta("stop", content="yes")).replace(b"\r\n", b"\r").replace(b"\n", b"\r"),
        events(delta("stop", content="yes")).rstrip(),
        b"data: " + orjson.dumps(delta("stop", content="yes")),
        b"data: " + orjson.dumps(delta(content="yes")) + b"\ndata: " + orjson.dumps(delta("stop")) + b"\n",
        events(delta("stop", content="yes")) + b"data: {",
        events({"choices": [{"index": 1, "delta": {"content": "NO"}}]}, delta("stop", content="yes")),
        events(delta("stop", content="yes"), {"choices": [], "usage": USAGE, "cost": 1e400 - 1e400}),
        b'data: {"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop", "avg_logprob": NaN}]}\n\n',
    ],
    ids=[
        "parts", "message", "message after pieces", "byte order mark", "after the end", "CR only", "no last newline",
        "no end but a reason", "one newline between events", "cut after the end", "two choices", "null", "NaN",
    ],
)  # fmt: skip
def test_forms_that_servers_use_are_read(data: bytes) -> None:
    for size in (1, 7, len(data)):
        assert answer(data, size) == "yes"


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "data",
    [
        events(delta(content="half an answ"), done=False),
        b"",
        b"data: {\n\n",
        b"data: [1]\n\n",
        events({"error": {"message": "out of memory"}}),
        b'data: {"error": ' + nested(900) + b"}\n\n",
        events(delta(tool_calls=[1])),
        events(delta("stop", tool_calls=5)),
        events(delta("stop", tool_calls=True)),
        events(delta("stop", content=5)),
        events(delta("stop", content={"text": "yes"})),
        events({"choices": [{"delta": "yes", "finish_reason": "stop"}]}),
        events({"choices": {"0": 1}}),
        events({"choices": ["yes"]}),
        events({"choices": [{"finish_reason": "stop"}]}),
        events(delta(content="a"), {"choices": [{"message": {"content": "b"}, "finish_reason": "stop"}]}),
        events(*[{"choices": [{"message": {"content": "b"}, "finish_reason": "stop"}]}] * 2),
    ],
)  # fmt: skip
def test_a_stream_without_a_readable_answer_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        answer(data)


@pytest.mark.parametrize("field", [b'"model":"m"', b'"index":0'])
@pytest.mark.parametrize("name", [b"usage", b"model", b"logprobs", b"id"])
def test_deep_fields_do_no_harm(field: bytes, name: bytes) -> None:
    data = events(delta("stop", content="yes"))
    assert answer(data.replace(field, field + b',"%s":{"a":%s}' % (name, nested(900)))) == "yes"


@pytest.mark.parametrize("kind", ["one line", "log probabilities", "arguments"])
def test_time_grows_with_the_length_alone(kind: str) -> None:
    def seconds(length: int) -> float:
        if kind == "one line":
            pieces = [b"data: " + b" " * 2**12] * length
        elif kind == "arguments":
            pieces = [
                events(delta(tool_calls=[{"index": 0, "function": {"arguments": "x" * 100}}]), done=False)
            ] * length
        else:
            chunk = delta(content="a")
            chunk["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -1.0, "top_logprobs": []}]}
            pieces = [events(chunk, done=False)] * length
        stream = Stream()
        began = time.process_time()
        for piece in pieces:
            stream.feed(piece)
        return time.process_time() - began

    seconds(200)
    # Quadratic work takes 64 times as long.
    assert min(seconds(8_000) for _ in range(2)) < 24 * max(min(seconds(1_000) for _ in range(3)), 1e-4)
