"""Requests and answers in the dialects of OpenAI (chat completions, Responses) and Anthropic (Messages)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gage_eval.base.canonical import canonical_json, canonical_text, decode
from gage_eval.models.client.http_server import Refusal
from gage_eval.models.client.sampling import wrong_parameters
from gage_eval.models.client.types import Response, without_surrogates

# Parameters that are passed on, by the name that backends know. All other fields of a request are left out: they say
# who asks (metadata, user), how the answer comes (stream) or what the provider's own servers do.
_COMMON = {name: name for name in ("temperature", "top_p", "seed", "stop", "presence_penalty", "frequency_penalty")}
_CHAT = {
    **_COMMON,
    **{name: name for name in ("top_k", "min_p", "repetition_penalty", "response_format", "reasoning_effort")},
    "parallel_tool_calls": "parallel_tool_calls",
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
}
_RESPONSES = {**_COMMON, "parallel_tool_calls": "parallel_tool_calls", "max_output_tokens": "max_new_tokens"}
_MESSAGES = {
    **{name: name for name in ("temperature", "top_p", "top_k")},
    "stop_sequences": "stop",
    "max_tokens": "max_new_tokens",
}
_TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
# The thoughts of earlier answers, which the model wrote and does not read again.
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CHOICES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


@dataclass
class Ask:
    """What a program asks, in the form of chat completions.

    Attributes:
        outputs: the outputs of tools among the messages, by the id of the call as the program knows it.
        streams: whether it wants events.
        counts: whether a stream of chat completions ends with the counts of tokens.
    """

    model: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    streams: bool = False
    counts: bool = False
    _ids: dict[str, str] = field(default_factory=dict)

    def say(self, role: str, text: str) -> None:
        """Add a message."""
        self.messages.append({"role": role, "content": text})

    def call(self, call_id: Any, name: Any, arguments: str) -> None:
        """Add a call of a tool to the model's last message."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self.say("assistant", "")
        function = {"name": _string(name, "the name of a called tool"), "arguments": arguments}
        made = {"id": self._id(call_id), "type": "function", "function": function}
        self.messages[-1].setdefault("tool_calls", []).append(made)

    def put_out(self, call_id: Any, text: str) -> None:
        """Add what a tool answered."""
        self.outputs[_string(call_id, "the id of a call")] = text
        self.messages.append({"role": "tool", "tool_call_id": self._id(call_id), "content": text})

    def _id(self, call_id: Any) -> str:
        """Ids are counted, so that equal conversations are equal requests with any ids."""
        return self._ids.setdefault(_string(call_id, "the id of a call"), f"call_{len(self._ids)}")


@dataclass(frozen=True)
class Said:
    """The model's answer for a program.

    Attributes:
        id: equal in each run.
        calls: (id, name, arguments) of each tool that it calls.
        finish: as chat completions say it.
    """

    id: str
    model: str
    text: str
    reasoning: str | None
    calls: Sequence[tuple[str, str, str]]
    finish: str
    prompt_tokens: int
    completion_tokens: int

    @classmethod
    def of(cls, response: Response, calls: Sequence[Mapping[str, Any]], identifier: str, model: str) -> "Said":
        """The answer of a response.

        Args:
            response: of the model.
            calls: the tools that it calls, in the form of chat completions.
            identifier: of the answer.
            model: as the program calls it.
        """
        finish = {"truncated": "length", "looped": "length", "refused": "content_filter"}.get(response.status, "stop")
        named = [
            (f"call_{identifier}_{number}", call["function"]["name"], call["function"]["arguments"])
            for number, call in enumerate(calls)
        ]
        return cls(
            identifier,
            model,
            response.answer or "",
            response.reasoning,
            named,
            "tool_calls" if named else finish,
            response.prompt_tokens or 0,
            response.completion_tokens or 0,
        )


Body = Mapping[str, Any]
Events = Iterator[tuple[str | None, Any]]


@dataclass(frozen=True)
class Dialect:
    """How a program asks, and how it is answered: as one object, or as events."""

    read: Callable[[Body], Ask]
    whole: Callable[[Said], Any]
    events: Callable[[Said, Ask], Events]

    def written(self, said: Said, ask: Ask) -> tuple[str, bytes]:
        """The content type and the body of the answer."""
        if not ask.streams:
            return "application/json", canonical_json(self.whole(said))
        lines = []
        for name, data in self.events(said, ask):
            line = data if isinstance(data, str) else canonical_text(data)
            lines.append(f"event: {name}\ndata: {line}\n\n" if name else f"data: {line}\n\n")
        return "text/event-stream", "".join(lines).encode()


def _ask(body: Body, names: Mapping[str, str]) -> Ask:
    """What all dialects have in common."""
    ask = Ask(_string(body.get("model"), "'model'"), streams=body.get("stream") is True)
    ask.params = {known: body[name] for name, known in names.items() if body.get(name) is not None}
    for name, allowed in wrong_parameters(ask.params):
        raise Refusal(400, f"'{name}' must be {allowed}")
    return ask


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise Refusal(400, f"{what} must be a text")
    return str(without_surrogates(value))


def _kind(entry: Body, otherwise: str = "") -> str:
    """The type of a part, an item or a tool."""
    return str(entry.get("type") or otherwise)[:40]


def _objects(value: Any, what: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Refusal(400, f"{what} must be a list of objects")
    return value


def _text(content: Any, what: str) -> str:
    """The text of a content: a string, or parts that are texts."""
    if content is None or isinstance(content, str):
        return str(without_surrogates(content or ""))
    texts = []
    for part in _objects(content, what):
        text, kind = part.get("text", part.get("refusal")), _kind(part)
        if kind in _THOUGHTS:
            continue
        if kind not in _TEXTS or not isinstance(text, str):
            raise Refusal(400, f"{what} holds a part of type {kind!r}; this relay takes texts only")
        texts.append(text)
    return str(without_surrogates("\n".join(texts)))


def _tools(entries: Any, function: Callable[[Body], Any]) -> list[dict[str, Any]] | None:
    """Tools in the form of chat completions. Those of a provider's own servers are left out."""
    functions = [function(entry) for entry in _objects(entries or [], "'tools'")]
    tools = []
    for described in functions:
        if described is None:
            continue
        if not isinstance(described, dict) or not isinstance(described.get("name"), str):
            raise Refusal(400, "each of 'tools' must have a name")
        tools.append(
            {"type": "function", "function": {key: described[key] for key in described if described[key] is not None}}
        )
    return without_surrogates(tools) or None


def _choice(choice: Any, name: Callable[[Body], Any]) -> Any:
    """A choice of tools in the form of chat completions."""
    if choice is None:
        return None
    if isinstance(choice, str) and choice in _CHOICES:
        return _CHOICES[choice]
    if isinstance(choice, dict):
        kind = _kind(choice)
        if kind in ("function", "tool"):
            return {"type": "function", "function": {"name": _string(name(choice), "the name in 'tool_choice'")}}
        if kind in _CHOICES:
            return _CHOICES[kind]
    raise Refusal(400, "'tool_choice' is none of auto, none, required, or a tool")


def _named(function: Any) -> Any:
    return function.get("name") if isinstance(function, dict) else None


def _function(entry: Body) -> Any:
    return entry.get("function") or {} if _kind(entry) == "function" else None


def _flat(entry: Body) -> Any:
    """A tool of the Responses."""
    if entry.get("type") != "function":
        return None
    return {name: entry.get(name) for name in ("name", "description", "parameters", "strict")}


def _with_schema(entry: Body) -> Any:
    """A tool of the Messages."""
    if entry.get("type") not in (None, "custom"):
        return None
    named = {"name": entry.get("name"), "description": entry.get("description")}
    return {**named, "parameters": entry.get("input_schema")}


def _read_chat(body: Body) -> Ask:
    ask = _ask(body, _CHAT)
    if body.get("n") not in (None, 1) or body.get("logprobs"):
        raise Refusal(400, "this relay gives one answer to a request, and no log probabilities: remove n and logprobs")
    for message in _objects(body.get("messages"), "'messages'"):
        role, text = message.get("role"), _text(message.get("content"), "a message")
        if role in ("system", "developer"):
            ask.say("system", text)
        elif role in ("user", "assistant"):
            ask.say(role, text)
            for call in _objects(message.get("tool_calls") or [], "'tool_calls'"):
                function = call.get("function")
                if not isinstance(function, dict):
                    raise Refusal(400, "each of 'tool_calls' must have a function")
                ask.call(call.get("id"), function.get("name"), _text(function.get("arguments"), "arguments"))
        elif role == "tool":
            ask.put_out(message.get("tool_call_id"), text)
        else:
            raise Refusal(400, f"a message has the role {str(role)[:40]!r}")
    ask.tools = _tools(body.get("tools"), _function)
    ask.tool_choice = _choice(body.get("tool_choice"), lambda choice: _named(choice.get("function")))
    options = body.get("stream_options")
    ask.counts = isinstance(options, dict) and options.get("include_usage") is True
    return ask


def _read_responses(body: Body) -> Ask:
    ask = _ask(body, _RESPONSES)
    if body.get("previous_response_id") is not None or body.get("conversation") is not None:
        raise Refusal(400, "this relay keeps no responses: send the whole conversation as 'input'")
    if body.get("instructions"):
        ask.say("system", _text(body["instructions"], "'instructions'"))
    items = body.get("input")
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else _objects(items, "'input'"):
        kind = _kind(item, "message")
        if kind == "message":
            role = item.get("role")
            if role not in ("system", "developer", "user", "assistant"):
                raise Refusal(400, f"an item has the role {str(role)[:40]!r}")
            ask.say("system" if role == "developer" else role, _text(item.get("content"), "an item"))
        elif kind == "function_call":
            ask.call(item.get("call_id"), item.get("name"), _text(item.get("arguments"), "arguments"))
        elif kind == "function_call_output":
            ask.put_out(item.get("call_id"), _text(item.get("output"), "an output"))
        elif kind not in _THOUGHTS:
            raise Refusal(400, f"'input' holds an item of type {kind!r}, which this relay does not take")
    ask.tools = _tools(body.get("tools"), _flat)
    ask.tool_choice = _choice(body.get("tool_choice"), lambda choice: choice.get("name"))
    form = (body.get("text") or {}).get("format") if isinstance(body.get("text"), dict | None) else None
    if isinstance(form, dict) and form.get("type") == "json_schema":
        ask.params["response_format"] = {
            "type": "json_schema",
            "json_schema": {name: form[name] for name in ("name", "schema", "strict") if form.get(name) is not None},
        }
    elif isinstance(form, dict) and form.get("type") == "json_object":
        ask.params["response_format"] = {"type": "json_object"}
    return ask


def _read_messages(body: Body) -> Ask:
    ask = _ask(body, _MESSAGES)
    if body.get("system"):
        ask.say("system", _text(body["system"], "'system'"))
    for message in _objects(body.get("messages"), "'messages'"):
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            raise Refusal(400, f"a message has the role {str(role)[:40]!r}")
        blocks = _objects([{"type": "text", "text": content}] if isinstance(content, str) else content, "a message")
        for block in blocks:
            if block.get("type") == "tool_result":
                ask.put_out(block.get("tool_use_id"), _text(block.get("content"), "a result"))
        plain = [block for block in blocks if block.get("type") not in ("tool_result", "tool_use")]
        text = _text(plain, "a message")
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        if text or calls or role == "assistant":
            ask.say(role, text)
        for block in calls:
            ask.call(block.get("id"), block.get("name"), canonical_text(block.get("input") or {}))
    ask.tools = _tools(body.get("tools"), _with_schema)
    ask.tool_choice = _choice(body.get("tool_choice"), lambda choice: choice.get("name"))
    return ask


def _whole_chat(said: Said) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
    if said.reasoning is not None:
        message["reasoning_content"] = said.reasoning
    if said.calls:
        message["tool_calls"] = _chat_calls(said)
    choice = {"index": 0, "message": message, "finish_reason": said.finish, "logprobs": None}
    return {**_chat_head(said, "chat.completion"), "choices": [choice], "usage": _chat_usage(said)}


def _chat_events(said: Said, ask: Ask) -> Events:
    head = _chat_head(said, "chat.completion.chunk")

    def chunk(delta: Body, finish: str | None = None) -> Any:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}

    first = {"role": "assistant", "content": said.text}
    yield None, chunk(first if said.reasoning is None else {**first, "reasoning_content": said.reasoning})
    for index, call in enumerate(_chat_calls(said)):
        yield None, chunk({"tool_calls": [{"index": index, **call}]})
    yield None, chunk({}, said.finish)
    if ask.counts:
        yield None, {**head, "choices": [], "usage": _chat_usage(said)}
    yield None, "[DONE]"


def _chat_head(said: Said, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{said.id}", "object": kind, "created": 0, "model": said.model}


def _chat_calls(said: Said) -> list[dict[str, Any]]:
    return [
        {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
        for identifier, name, arguments in said.calls
    ]


def _chat_usage(said: Said) -> dict[str, int]:
    total = said.prompt_tokens + said.completion_tokens
    return {"prompt_tokens": said.prompt_tokens, "completion_tokens": said.completion_tokens, "total_tokens": total}


def _whole_response(said: Said) -> dict[str, Any]:
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    reason = reasons.get(said.finish)
    usage = {
        "input_tokens": said.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": said.prompt_tokens + said.completion_tokens,
    }
    return {
        "id": f"resp_{said.id}",
        "object": "response",
        "created_at": 0,
        "model": said.model,
        "usage": usage,
        "status": "completed" if reason is None else "incomplete",
        "incomplete_details": None if reason is None else {"reason": reason},
        "output": [*_text_items(said), *_call_items(said)],
        **dict.fromkeys(("error", "instructions", "previous_response_id", "temperature", "top_p")),
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _text_items(said: Said) -> list[dict[str, Any]]:
    if said.calls and not said.text:
        return []
    part = {"type": "output_text", "text": said.text, "annotations": []}
    done = "incomplete" if said.finish == "length" else "completed"
    return [{"id": f"msg_{said.id}", "type": "message", "role": "assistant", "status": done, "content": [part]}]


def _call_items(said: Said) -> list[dict[str, Any]]:
    return [
        {"id": f"fc_{said.id}_{number}", "type": "function_call", "status": "completed", "call_id": identifier}
        | {"name": name, "arguments": arguments}
        for number, (identifier, name, arguments) in enumerate(said.calls)
    ]


def _response_events(said: Said, ask: Ask) -> Events:
    whole = _whole_response(said)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    number = -1

    def event(name: str, /, **data: Any) -> tuple[str, Any]:
        nonlocal number
        number += 1
        kind = f"response.{name}"
        return kind, {"type": kind, "sequence_number": number, **data}

    yield event("created", response=begun)
    yield event("in_progress", response=begun)
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield event("output_item.added", output_index=index, item={**item, **empty, "status": "in_progress"})
        if item["type"] == "message":
            part = item["content"][0]
            yield event("content_part.added", **at, content_index=0, part={**part, "text": ""})
            yield event("output_text.delta", **at, content_index=0, delta=part["text"], logprobs=[])
            yield event("output_text.done", **at, content_index=0, text=part["text"], logprobs=[])
            yield event("content_part.done", **at, content_index=0, part=part)
        else:
            yield event("function_call_arguments.delta", **at, delta=item["arguments"])
            yield event("function_call_arguments.done", **at, name=item["name"], arguments=item["arguments"])
        yield event("output_item.done", output_index=index, item=item)
    yield event(whole["status"], response=whole)


_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


def _whole_message(said: Said) -> dict[str, Any]:
    texts = [{"type": "text", "text": said.text}] if said.text or not said.calls else []
    uses = [
        {"type": "tool_use", "id": identifier, "name": name, "input": _input(arguments)}
        for identifier, name, arguments in said.calls
    ]
    return {
        "id": f"msg_{said.id}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": [*texts, *uses],
        "stop_reason": _STOPS[said.finish],
        "stop_sequence": None,
        "usage": {"input_tokens": said.prompt_tokens, "output_tokens": said.completion_tokens},
    }


def _input(arguments: str) -> Any:
    """The arguments of a call as an object, which the Messages need."""
    try:
        read = decode(arguments)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"arguments": arguments}


def _message_events(said: Said, ask: Ask) -> Events:
    whole = _whole_message(said)
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 0}}
    yield "message_start", {"type": "message_start", "message": begun}
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": canonical_text(block["input"])}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": whole["usage"]}
    yield "message_stop", {"type": "message_stop"}


DIALECTS: Mapping[str, Dialect] = {
    "chat/completions": Dialect(_read_chat, _whole_chat, _chat_events),
    "responses": Dialect(_read_responses, _whole_response, _response_events),
    "messages": Dialect(_read_messages, _whole_message, _message_events),
}
"""By the end of their path."""
