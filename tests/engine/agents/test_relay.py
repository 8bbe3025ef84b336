"""The relay counts equal requests, limits turns, and answers anything with a status and a sentence."""

import asyncio
import json
from typing import Any

import pytest
from engine.agents.relayed import Listening, says

from gage_eval.base.errors import EndpointFailed
from gage_eval.models.client.episode_limits import EpisodeLimits, Price
from gage_eval.models.client.types import Request, Response

CHAT = "/v1/chat/completions"


def asked(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "any", "messages": [{"role": "user", "content": text}], **more}


def answer_of(reply: tuple[int, Any]) -> str:
    status, body = reply
    assert status == 200, body
    return str(body["choices"][0]["message"]["content"])


def test_the_nth_equal_request_is_draw_n_and_a_retry_is_none() -> None:
    async def run() -> list[str]:
        async with Listening(says).serving() as relay:
            replies = [
                await relay.send(CHAT, asked(user="a", metadata={"n": "1"}), idempotency_key="k1"),
                await relay.send(CHAT, asked(user="b")),
                await relay.send(CHAT, asked(), x_stainless_retry_count="1"),
                await relay.send(CHAT, asked(), idempotency_key="k1"),
                await relay.send(CHAT, asked("other")),
                await relay.send(CHAT, asked()),
            ]
            assert len(relay.asked) == 4
            return [answer_of(reply).partition(":")[0] for reply in replies]

    draws = [1, 1 + 2**32, 1 + 2**32, 1, 1, 1 + 2 * 2**32]
    assert asyncio.run(run()) == list(map(str, draws))


def test_a_client_that_drops_its_request_gets_the_same_answer_when_it_asks_again() -> None:
    began, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        began.set()
        await may_answer.wait()
        return await says(request)

    async def run() -> list[Request]:
        async with Listening(slow).serving() as relay:
            body = json.dumps(asked(stream=True)).encode()
            _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            path = relay.openai.partition(str(relay.port))[2]
            writer.write(
                f"POST {path}/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
            await began.wait()
            writer.close()
            await writer.wait_closed()
            may_answer.set()
            # Its connection ends after the drop was noted.
            await asyncio.sleep(0.05)
            assert answer_of(await relay.send(CHAT, asked())) == "1: hello"
            assert answer_of(await relay.send(CHAT, asked())).startswith(str(1 + 2**32))
            return relay.asked

    assert len(asyncio.run(run())) == 2


def test_the_secret_of_the_address_is_in_no_request() -> None:
    async def run() -> tuple[str, Listening]:
        async with Listening(says).serving() as relay:
            return answer_of(await relay.send(CHAT, asked(f"I am at {relay.openai}."))), relay

    said, relay = asyncio.run(run())
    secret = relay.anthropic.rpartition("/")[2]
    assert len(secret) > 20
    assert secret not in said
    assert said.endswith("/SECRET/v1.")
    assert relay.relay.without_secret(f"<{secret}>".encode()) == b"<SECRET>"


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        ({"max_turns": 2}, "turns"),
        ({"episode": EpisodeLimits(tokens=14)}, "tokens"),
        ({"episode": EpisodeLimits(model_s=2.0)}, "time"),
        ({"episode": EpisodeLimits(cost=14.0, price=Price(1e6, 1e6))}, "cost"),
    ],
)
def test_a_limit_is_refused_between_turns(limit: dict[str, Any], kind: str) -> None:
    async def model(request: Request) -> Response:
        return Response("ok", "a", prompt_tokens=3, completion_tokens=4, latency_ms=1000.0)

    async def run() -> tuple[list[tuple[int, Any]], tuple[str, str] | None]:
        async with Listening(model, **limit).serving() as relay:
            return [await relay.send(CHAT, asked(str(n))) for n in range(4)], relay.relay.limit

    replies, reached = asyncio.run(run())
    assert [status for status, _ in replies] == [200, 200, 403, 403]
    assert reached is not None
    assert reached[0] == kind
    assert reached[1] in replies[-1][1]["error"]["message"]


def test_a_request_that_the_endpoint_refuses_is_told_to_the_program_and_a_dead_endpoint_ends_it() -> None:
    async def model(request: Request) -> Response:
        assert request.messages
        if request.messages[0]["content"] == "gone":
            raise EndpointFailed("the endpoint is gone")
        return Response("error", error_kind="context_too_long", errors=["the prompt is too long"])

    async def run() -> None:
        async with Listening(model).serving() as relay:
            status, body = await relay.send(CHAT, asked())
            assert (status, body["error"]["message"]) == (400, "the prompt is too long")
            assert not relay.relay.failed.done()
            waiting = asyncio.ensure_future(relay.send(CHAT, asked("gone")))
            with pytest.raises(EndpointFailed):
                await relay.relay.failed
            waiting.cancel()
            assert await relay.relay.turns() == []

    asyncio.run(run())


TOO_DEEP = b'{"model": "a", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}"
DEEP = (
    b'{"model": "a", "messages": [], "tools": [{"type": "function", "function": {"name": "f", "parameters": %s}}]}'
    % (b'{"a": ' * 950 + b"1" + b"}" * 950)
)
PARTS = [{"type": "image_url", "image_url": {"url": "http://elsewhere/a.png"}}]
BAD: list[tuple[str, Any]] = [
    (CHAT, b""),
    (CHAT, b"{"),
    (CHAT, b"\xff\xfe"),
    (CHAT, []),
    (CHAT, TOO_DEEP),
    (CHAT, DEEP),
    (CHAT, b'{"model": "a", "messages": [], "stop": "\\ud800"}'),
    (CHAT, b'{"model": "a", "messages": [], "temperature": NaN}'),
    (CHAT, {}),
    (CHAT, {"model": "a"}),
    (CHAT, {"model": 1, "messages": []}),
    (CHAT, {"model": "a", "messages": "hello"}),
    (CHAT, {"model": "a", "messages": [1]}),
    (CHAT, {"model": "a", "messages": [{"role": "wizard", "content": "a"}]}),
    (CHAT, {"model": "a", "messages": [{"role": [], "content": "a"}]}),
    (CHAT, {"model": "a", "messages": [{"role": "tool", "content": "a"}]}),
    (CHAT, {"model": "a", "messages": [{"role": "user", "content": PARTS}]}),
    (CHAT, {"model": "a", "messages": [{"role": "user", "content": {"text": "a"}}]}),
    (CHAT, {"model": "a", "messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": "f"}]}]}),
    (CHAT, {"model": "a", "messages": [{"role": "assistant", "tool_calls": [{"id": {}, "function": {"name": "f"}}]}]}),
    (CHAT, asked(tools=5)),
    (CHAT, asked(tools=[{"type": "function", "function": {"name": 1}}])),
    (CHAT, asked(tools=[{"type": "function"}])),
    (CHAT, asked(tools=[{"type": {}, "function": {"name": "f"}}], tool_choice={"type": []})),
    (CHAT, asked(tool_choice={"type": "function", "function": 5})),
    (CHAT, asked(temperature="hot")),
    (CHAT, asked(n=1000)),
    (CHAT, asked(max_tokens=-1)),
    ("/v1/responses", {"model": "a", "input": [{"type": "item_reference", "id": "a"}]}),
    ("/v1/responses", {"model": "a", "input": [{"type": [], "id": "a"}]}),
    ("/v1/responses", {"model": "a", "input": "b", "previous_response_id": "c"}),
    ("/v1/responses", {"model": "a", "input": None}),
    ("/v1/messages", {"model": "a", "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}),
    ("/v1/messages", {"model": "a", "messages": [{"role": "user", "content": 5}]}),
    ("/v1/messages", {"model": "a", "messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}),
    ("/v1/messages", {"model": "a", "messages": [{"role": ["user"], "content": "a"}]}),
]


def test_what_is_no_request_gets_a_sentence_and_the_relay_goes_on() -> None:
    async def run() -> None:
        async with Listening(says).serving() as relay:
            for path, body in BAD:
                status, told = await relay.send(path, body)
                assert status == 400, (path, body, told)
                assert len(told["error"]["message"]) > 10
            for path, method, expected in [
                ("/v1/models", "GET", 200),
                ("/v1/models/any", "GET", 200),
                ("/v1/messages/count_tokens", "POST", 404),
                ("/v1/embeddings", "POST", 404),
                (CHAT, "GET", 404),
                ("x/v1/models", "GET", 404),
                ("/../../etc/passwd", "GET", 404),
            ]:
                status, told = await relay.send(path, {}, method)
                assert status == expected, (path, told)
            assert relay.asked == []
            assert answer_of(await relay.send(CHAT, asked())) == "1: hello"

    asyncio.run(run())


def test_bytes_that_are_no_http_and_a_body_of_100_mb_are_refused() -> None:
    async def raw(relay: Listening, *data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        for piece in data:
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
        reply = await reader.read()
        writer.close()
        return reply

    async def run() -> None:
        async with Listening(says).serving() as relay:
            head = f"POST {relay.openai.partition(str(relay.port))[2]}/chat/completions HTTP/1.1\r\n".encode()
            piece = b" " * (1 << 20)
            assert b" 400 " in await raw(relay, b"\x16\x03\x01\x02\x00\x01")
            assert b" 400 " in await raw(relay, head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}")
            assert b" 413 " in await raw(relay, head + b"Content-Length: 104857600\r\n\r\n", *[piece] * 100)
            assert b" 413 " in await raw(relay, head, *[b"X-A: " + piece + b"\r\n"] * 17)
            chunks = [b"100000\r\n" + piece + b"\r\n"] * 17
            assert b" 413 " in await raw(relay, head + b"Transfer-Encoding: chunked\r\n\r\n", *chunks)
            assert await raw(relay, head) == b""
            idle = [await asyncio.open_connection("127.0.0.1", relay.port) for _ in range(40)]
            for _, writer in idle:
                writer.close()
            await asyncio.sleep(0.05)
            assert answer_of(await relay.send(CHAT, asked())) == "1: hello"
            two = b"GET /x HTTP/1.1\r\n\r\n" * 2
            assert (await raw(relay, two)).count(b" 404 ") == 2

    asyncio.run(run())
