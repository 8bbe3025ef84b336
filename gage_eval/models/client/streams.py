"""Streamed answers: puts server-sent events together into one complete answer."""

import time
from typing import Any

import orjson

_DONE = b"[DONE]"
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


class StreamError(ValueError):
    """The body is not a stream, or the stream ended before the answer was complete."""


class Stream:
    """Puts the chunks of one streamed completion together (OpenAI's form: chat or text).

    Attributes:
        first_token_at: `time.monotonic` when the first text or tool call came, None before.
        done: whether the stream reported its end.
    """

    def __init__(self) -> None:
        self.first_token_at: float | None = None
        self.done = False
        self._rest = b""
        self._reply: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._tools: dict[int, dict[str, Any]] = {}
        self._logprobs: dict[str, Any] = {}

    def feed(self, data: bytes) -> None:
        """Take the next bytes; they may be cut anywhere.

        Raises:
            StreamError: an event is not a JSON object, or reports an error.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip())

    def reply(self) -> bytes:
        """The whole answer as JSON.

        Raises:
            StreamError: the stream ended before the answer was complete.
        """
        if not self.done and self._choice.get("finish_reason") is None:
            raise StreamError("the stream ended before the answer was complete")
        joined = {name: "".join(pieces) for name, pieces in self._texts.items()}
        choice = {**self._choice, "logprobs": self._logprobs or None}
        if "text" in joined:
            choice["text"] = joined["text"]
        else:
            message: dict[str, Any] = {"content": None, **self._message, **joined}
            if self._tools:
                message["tool_calls"] = [self._tools[index] for index in sorted(self._tools)]
            choice["message"] = message
        return orjson.dumps({**self._reply, "choices": [choice]} if self._choice or joined else self._reply)

    def _event(self, data: bytes) -> None:
        if data == _DONE:
            self.done = True
            return
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = None
        if not isinstance(event, dict):
            raise StreamError(f"an event that is not a JSON object: {data[:200].decode(errors='replace')!r}")
        if event.get("error"):
            raise StreamError(f"the stream reports an error: {str(event['error'])[:300]}")
        self._reply.update({name: value for name, value in event.items() if name != "choices" and value is not None})
        choices = event.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._take(choices[0])

    def _take(self, choice: dict[str, Any]) -> None:
        self._choice["finish_reason"] = choice.get("finish_reason") or self._choice.get("finish_reason")
        if isinstance(choice.get("text"), str):
            self._text("text", choice["text"])
        delta = choice.get("delta")
        if isinstance(delta, dict):
            for name in _TEXTS:
                if isinstance(delta.get(name), str):
                    self._text(name, delta[name])
            for call in delta.get("tool_calls") or ():
                self._tool(call)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            for name, value in logprobs.items():
                known = self._logprobs.get(name)
                self._logprobs[name] = known + value if isinstance(known, list) and isinstance(value, list) else value

    def _text(self, name: str, piece: str) -> None:
        if piece:
            self._began()
        self._texts.setdefault(name, []).append(piece)

    def _tool(self, call: Any) -> None:
        if not isinstance(call, dict):
            raise StreamError("a tool call that is not an object")
        self._began()
        index = call.get("index")
        number = index if isinstance(index, int) else len(self._tools)
        known = self._tools.setdefault(number, {"type": "function", "function": {"name": "", "arguments": ""}})
        for name in ("id", "type"):
            if call.get(name):
                known[name] = call[name]
        function = call.get("function")
        if isinstance(function, dict):
            for name in ("name", "arguments"):
                if isinstance(function.get(name), str):
                    known["function"][name] += function[name]

    def _began(self) -> None:
        if self.first_token_at is None:
            self.first_token_at = time.monotonic()
