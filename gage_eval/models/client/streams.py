"""Streamed answers: puts server-sent events together into one complete answer."""

import time
from typing import Any

from gage_eval.models.client.payload import Malformed, parse_json, shown

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DONE = b"[DONE]"
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


class Stream:
    """Puts the chunks of one streamed completion together (OpenAI's form: chat or text).

    Lines and events are those of the standard (WHATWG HTML, *Server-sent events*). Beyond it, a line of data that is
    JSON by itself is an event, and the last event needs no empty line after it.

    Attributes:
        first_token_at: `time.monotonic` when the first text or tool call came, None before.
        done: whether the stream reported its end; what comes after that is ignored.
    """

    def __init__(self) -> None:
        self.first_token_at: float | None = None
        self.done = False
        # The first bytes, while they may be a byte order mark; None after that.
        self._start: bytes | None = b""
        self._after_cr = False
        # The pieces of a line that has not ended, and the lines of an event that has not.
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._reply: dict[str, Any] = {}
        self._finish: Any = None
        self._text: list[str] = []
        self._has_text = False
        self._has_message = False
        # The pieces of each field of the message: texts, or parts of a content.
        self._pieces: dict[str, list[Any]] = {}
        self._whole: dict[str, Any] | None = None
        self._tools: dict[int, dict[str, Any]] = {}
        self._logprobs: dict[str, Any] = {}

    def feed(self, data: bytes) -> None:
        """Take the next bytes; they may be cut anywhere.

        Raises:
            Malformed: an event is not a JSON object, reports an error, or has no readable text.
        """
        if self.done or not data:
            return
        if self._start is not None:
            data = self._start + data
            if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
                self._start = data
                return
            self._start = None
            data = data.removeprefix(_BYTE_ORDER_MARK)
        if self._after_cr or b"\r" in data:
            data = self._with_line_feeds(data)
        lines = data.split(b"\n")
        if len(lines) > 1 and self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line = []
        rest = lines.pop()
        if rest:
            self._line.append(rest)
        for line in lines:
            if not line.startswith(b"data:"):
                if not line and self._data:
                    self._end_event()
                continue
            if not self._data:
                try:
                    event = parse_json(line[5:])
                except Malformed:
                    # The end of the stream, or the first line of an event of several.
                    self.done = line[5:].strip() == _DONE
                    if self.done:
                        return
                else:
                    self._event(event)
                    continue
            self._data.append(line[5:])

    def reply(self) -> dict[str, Any]:
        """The whole answer, as an endpoint without streams would have given it.

        Raises:
            Malformed: the stream ended before the answer was complete, or its pieces make no answer.
        """
        self._end()
        if not self.done and self._finish is None:
            raise Malformed("the stream ended before the answer was complete")
        choice: dict[str, Any] = {"finish_reason": self._finish, "logprobs": self._logprobs or None}
        if self._has_text:
            choice["text"] = "".join(self._text)
        if self._has_message:
            choice["message"] = self._message()
        return {**self._reply, "choices": [choice]}

    def _with_line_feeds(self, data: bytes) -> bytes:
        """The bytes with each end of a line (CR LF, CR or LF) as LF."""
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _end(self) -> None:
        """Take the last event, which may lack its ends of lines. One that was cut off is dropped."""
        if self.done:
            return
        line = b"".join(self._line)
        if line.startswith(b"data:"):
            self._data.append(line[5:])
        data = b"\n".join(self._data)
        try:
            event = parse_json(data)
        except Malformed:
            self.done = data.strip() == _DONE
        else:
            self._event(event)

    def _end_event(self) -> None:
        data, self._data = b"\n".join(self._data), []
        if data.strip():
            self._event(parse_json(data))

    def _event(self, event: Any) -> None:
        if not isinstance(event, dict):
            raise Malformed(f"an event that is not a JSON object: {shown(event)}")
        if event.get("error"):
            raise Malformed(f"the stream reports an error: {shown(event['error'])}")
        self._reply.update({name: value for name, value in event.items() if name != "choices" and value is not None})
        choices = event.get("choices")
        if not choices:
            return
        if not isinstance(choices, list):
            raise Malformed("an event whose choices are not a list")
        for choice in choices:
            if not isinstance(choice, dict):
                raise Malformed("an event with a choice that is not an object")
            # Only one answer was asked for; a second one must not be mixed with it.
            if not choice.get("index"):
                self._choice(choice)
                return

    def _choice(self, choice: dict[str, Any]) -> None:
        self._finish = choice.get("finish_reason") or self._finish
        text = choice.get("text")
        if text is not None:
            if not isinstance(text, str):
                raise Malformed("an event whose text is not a text")
            self._has_text = True
            self._text.append(text)
            if text:
                self._began()
        delta = choice.get("delta")
        if delta is not None:
            self._delta(delta)
        message = choice.get("message")
        if message is not None:
            if not isinstance(message, dict) or self._whole is not None:
                raise Malformed("a message that is not an object, or a second one")
            self._whole, self._has_message = message, True
            self._began()
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            for name, value in logprobs.items():
                known = self._logprobs.get(name)
                if isinstance(known, list) and isinstance(value, list):
                    known.extend(value)
                elif value is not None or name not in self._logprobs:
                    self._logprobs[name] = value

    def _delta(self, delta: Any) -> None:
        if not isinstance(delta, dict):
            raise Malformed("a delta that is not an object")
        self._has_message = True
        for name in _TEXTS:
            value = delta.get(name)
            if value is None:
                continue
            if isinstance(value, str):
                self._pieces.setdefault(name, []).append(value)
            elif name == "content" and isinstance(value, list):
                self._pieces.setdefault(name, []).extend(value)
            elif name == "content" or (name == "refusal" and value):
                raise Malformed(f"a delta whose {name} is not a text")
            if value:
                self._began()
        calls = delta.get("tool_calls")
        if calls:
            if not isinstance(calls, list):
                raise Malformed("tool calls that are not a list")
            for call in calls:
                self._tool(call)

    def _tool(self, call: Any) -> None:
        if not isinstance(call, dict):
            raise Malformed("a tool call that is not an object")
        self._began()
        index = call.get("index")
        number = index if isinstance(index, int) else len(self._tools)
        known = self._tools.setdefault(number, {"type": "function", "function": {"name": [], "arguments": []}})
        known.update({name: value for name, value in call.items() if value and name not in {"index", "function"}})
        function = call.get("function")
        if isinstance(function, dict):
            for name, pieces in known["function"].items():
                if function.get(name) is not None:
                    pieces.append(function[name])

    def _message(self) -> dict[str, Any]:
        """The message assembled from all pieces, or the message that arrived whole.

        Raises:
            Malformed: it came whole and in other pieces.
        """
        fields: dict[str, Any] = {name: _content(pieces) for name, pieces in self._pieces.items()}
        whole = self._whole
        if whole is not None:
            content = fields.get("content")
            lacks_calls = self._tools and not whole.get("tool_calls")
            if lacks_calls or (content and not (isinstance(content, str) and content == whole.get("content"))):
                raise Malformed("a whole message that differs from its pieces")
            return whole
        message: dict[str, Any] = {"content": None, **fields}
        if self._tools:
            message["tool_calls"] = [
                {**call, "function": {name: _argument(pieces) for name, pieces in call["function"].items()}}
                for _, call in sorted(self._tools.items())
            ]
        return message

    def _began(self) -> None:
        if self.first_token_at is None:
            self.first_token_at = time.monotonic()


def _joined(pieces: list[Any]) -> str | None:
    """Pieces as one text; None where some are not texts."""
    try:
        return "".join(pieces)
    except TypeError:
        return None


def _content(pieces: list[Any]) -> str | list[Any]:
    text = _joined(pieces)
    return pieces if text is None else text


def _argument(pieces: list[Any]) -> Any:
    """A field of a call: pieces of a text, or a single value, as some endpoints give the arguments."""
    text = _joined(pieces)
    if text is None and len(pieces) > 1:
        raise Malformed("a tool call whose pieces are not texts")
    return pieces[0] if text is None else text
