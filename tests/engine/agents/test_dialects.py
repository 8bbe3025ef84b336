"""Three dialects, as the packages of their makers speak them."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from engine.agents.relayed import TOOL, Listening

from gage_eval.models.client.types import Request, Response

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

QUESTION, SYSTEM = "What is in a.txt?", "You are terse."


def plain(value: Any) -> str:
    """JSON as the Messages, which know no text of arguments, are passed on."""
    return json.dumps(value, separators=(",", ":"))


class Heard(NamedTuple):
    """What a client got: text, calls as (id, name, arguments), why it ended, tokens."""

    text: str
    calls: list[tuple[str, str, Any]]
    finish: str
    tokens: tuple[int, int]


def chat_client(relay: Listening) -> Any:
    # Without certificates, which take long to load.
    http = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=relay.openai, api_key="none", max_retries=0, http_client=http)


async def chat(relay: Listening, streams: bool, history: list[tuple[Heard, str]]) -> Heard:
    messages: list[Any] = [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    for heard, output in history:
        calls = [
            {"id": call, "type": "function", "function": {"name": name, "arguments": plain(arguments)}}
            for call, name, arguments in heard.calls
        ]
        messages.append({"role": "assistant", "content": heard.text, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": call, "content": output} for call, _, _ in heard.calls]
    tools = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": TOOL}}]
    request: dict[str, Any] = {"model": "any", "messages": messages, "tools": tools, "max_tokens": 50, "user": "me"}
    async with chat_client(relay) as client:
        if streams:
            text, calls, finish, usage = "", {}, "", None
            options = {"include_usage": True}
            async for chunk in await client.chat.completions.create(**request, stream=True, stream_options=options):
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    finish = choice.finish_reason or finish
                    for call in choice.delta.tool_calls or []:
                        calls[call.index] = (call.id, call.function.name, json.loads(call.function.arguments))
            return Heard(text, list(calls.values()), finish, (usage.prompt_tokens, usage.completion_tokens))
        whole = await client.chat.completions.create(**request)
    (choice,), usage = whole.choices, whole.usage
    named = [
        (call.id, call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []
    ]
    return Heard(choice.message.content, named, choice.finish_reason, (usage.prompt_tokens, usage.completion_tokens))


async def responses(relay: Listening, streams: bool, history: list[tuple[Heard, str]]) -> Heard:
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
    for heard, output in history:
        items.append({"role": "assistant", "content": [{"type": "output_text", "text": heard.text}]})
        items += [
            {"type": "function_call", "call_id": call, "name": name, "arguments": plain(arguments)}
            for call, name, arguments in heard.calls
        ]
        items += [{"type": "function_call_output", "call_id": call, "output": output} for call, _, _ in heard.calls]
    tools = [{"type": "function", "name": "look", "description": "Looks.", "parameters": TOOL}, {"type": "web_search"}]
    request: dict[str, Any] = {"model": "any", "instructions": SYSTEM, "input": items, "tools": tools}
    request |= {"max_output_tokens": 50, "metadata": {"a": "b"}, "store": False}
    async with chat_client(relay) as client:
        if streams:
            events = [event async for event in await client.responses.create(**request, stream=True)]
            assert [event.sequence_number for event in events] == list(range(len(events)))
            whole = events[-1].response
            deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
            assert "".join(deltas) == whole.output_text
        else:
            whole = await client.responses.create(**request)
    calls = [
        (item.call_id, item.name, json.loads(item.arguments)) for item in whole.output if item.type == "function_call"
    ]
    finish = "tool_calls" if calls else "length" if whole.status == "incomplete" else "stop"
    return Heard(whole.output_text, calls, finish, (whole.usage.input_tokens, whole.usage.output_tokens))


async def messages(relay: Listening, streams: bool, history: list[tuple[Heard, str]]) -> Heard:
    said: list[Any] = [{"role": "user", "content": QUESTION}]
    for heard, output in history:
        uses = [{"type": "tool_use", "id": call, "name": name, "input": value} for call, name, value in heard.calls]
        said.append({"role": "assistant", "content": [{"type": "text", "text": heard.text}, *uses]})
        results = [{"type": "tool_result", "tool_use_id": call, "content": output} for call, _, _ in heard.calls]
        said.append({"role": "user", "content": results})
    tools = [{"name": "look", "description": "Looks.", "input_schema": TOOL}]
    request: dict[str, Any] = {"model": "any", "system": SYSTEM, "messages": said, "tools": tools, "max_tokens": 50}
    http = anthropic.DefaultAsyncHttpxClient(verify=False)
    where: dict[str, Any] = {"base_url": relay.anthropic, "http_client": http}
    async with anthropic.AsyncAnthropic(**where, api_key="none", max_retries=0) as client:
        if streams:
            async with client.messages.stream(**request, metadata={"user_id": "me"}) as events:
                whole = await events.get_final_message()
        else:
            whole = await client.messages.create(**request)
    text = "".join(block.text for block in whole.content if block.type == "text")
    calls = [(block.id, block.name, block.input) for block in whole.content if block.type == "tool_use"]
    finish = {"tool_use": "tool_calls", "max_tokens": "length", "end_turn": "stop"}[whole.stop_reason]
    return Heard(text, calls, finish, (whole.usage.input_tokens, whole.usage.output_tokens))


Speaks = Callable[[Listening, bool, list[tuple[Heard, str]]], Awaitable[Heard]]
DIALECTS: list[Speaks] = [chat, responses, messages]


def calls_json(*arguments: Any) -> str:
    return json.dumps([{"function": {"name": "look", "arguments": json.dumps(value)}} for value in arguments])


def test_one_conversation_is_the_same_requests_in_each_dialect_streamed_or_not() -> None:
    async def model(request: Request) -> Response:
        if any(message["role"] == "tool" for message in request.messages or []):
            return Response("truncated", "It holds", prompt_tokens=8, completion_tokens=2)
        return Response("ok", "I look.", tool_calls=calls_json({"a": 1}, {}), prompt_tokens=5, completion_tokens=6)

    async def conversation(speaks: Speaks, streams: bool) -> tuple[list[Any], list[Request], list[Response]]:
        async with Listening(model).serving() as relay:
            first = await speaks(relay, streams, [])
            second = await speaks(relay, streams, [(first, "two lines")])
            return [first, second], relay.asked, await relay.relay.turns()

    seen = []
    for speaks in DIALECTS:
        for streams in (False, True):
            (first, second), requests, turns = asyncio.run(conversation(speaks, streams))
            assert (first.text, first.finish, first.tokens) == ("I look.", "tool_calls", (5, 6))
            assert [call[1:] for call in first.calls] == [("look", {"a": 1}), ("look", {})]
            assert (second.text, second.calls, second.finish) == ("It holds", [], "length")
            assert [turn.tool_outputs for turn in turns] == [["two lines"] * 2, None]
            seen.append([(request.messages, request.tools, request.params, request.draw) for request in requests])
    assert all(conversation == seen[0] for conversation in seen)
    history, tools, params, draw = seen[0][1]
    assert [message["role"] for message in history] == ["system", "user", "assistant", "tool", "tool"]
    assert [message["tool_call_id"] for message in history[3:]] == ["call_0", "call_1"]
    assert [tool["function"]["name"] for tool in tools] == ["look"]
    assert (params, draw) == ({"seed": 7, "max_new_tokens": 50}, 1)


@pytest.mark.parametrize("speaks", DIALECTS)
def test_odd_answers_reach_the_packages_unchanged(speaks: Speaks) -> None:
    chance = random.Random(32)
    letters = 'a" \\\n\r\t\0\x85\u2028😀é{}[]:,data: [DONE]\n\n'

    def text() -> str:
        return "".join(chance.choices(letters, k=chance.randrange(0, 30)))

    async def model(request: Request) -> Response:
        return expected

    async def all_of() -> None:
        nonlocal expected
        async with Listening(model, max_turns=1000).serving() as relay:
            for number in range(30):
                arguments = [{text(): text(), "n": [number]} for _ in range(chance.randrange(0, 3))]
                calls = calls_json(*arguments) if arguments else None
                expected = Response("ok", text(), tool_calls=calls)
                heard = await speaks(relay, bool(number % 2), [])
                assert heard.text == expected.answer
                assert [call[2] for call in heard.calls] == arguments
                assert len({call[0] for call in heard.calls}) == len(arguments)

    expected = Response("ok")
    asyncio.run(all_of())
