#!/usr/bin/env python3
"""A small OpenAI-compatible endpoint that answers, and fails, as a pure function of the prompt.

Loopback only. Prints ``PORT n`` when it listens, and ends when no request comes for a while.

A prompt with ``a + b`` is answered with ``ANSWER: <sum>``, or with the sum plus one if `is_right(prompt, accuracy)` is
false. Any other prompt is answered with a number derived from its text. So a client knows every answer in advance.
Faults depend on (prompt, attempt, seed), so all clients get the same ones.

    POST /v1/chat/completions, /v1/completions      GET /v1/models, /health, /stats
    POST /phase/NAME   from now on, counts are also kept for that phase
    POST /reset        forget all counts
"""

import argparse
import asyncio
import base64
import hashlib
import os
import re
import sys
import time
from collections import Counter
from typing import Any, cast
from urllib.request import ProxyHandler, build_opener

import httptools
import orjson
import uvloop

FAULTS = ("403", "404", "429", "500", "reset", "malformed", "hang", "context", "model", "refusal", "length")
_COUNTED = ("requests", "answered", "resent_after_answer", "client_gone", "overloaded")
_open = build_opener(ProxyHandler({})).open
_SUM = re.compile(r"(-?\d+) \+ (-?\d+)")
_REASONS = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized"} | {
    403: b"Forbidden",
    404: b"Not Found",
    429: b"Too Many Requests",
    500: b"Internal Server Error",
}


def unit(text: str, salt: str) -> float:
    """A number in 0..1 (1 excluded) that depends on text and salt only."""
    hashed = hashlib.blake2b(f"{salt}\0{text}".encode(errors="surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(hashed) >> 11) / 2**53


def is_right(prompt: str, accuracy: float) -> bool:
    """Whether the endpoint answers this prompt correctly."""
    return unit(prompt, "right") < accuracy


def answer_to(prompt: str, accuracy: float = 1.0, words: int = 0) -> str:
    """The answer to a prompt, after ``words`` words of padding."""
    match = _SUM.search(prompt)
    if match is None:
        value = int(unit(prompt, "noise") * 1000)
    else:
        value = int(match[1]) + int(match[2]) + (not is_right(prompt, accuracy))
    return "so " * words + f"ANSWER: {value}"


def fault_of(prompt: str, attempt: int, faults: dict[str, float], seed: int) -> str | None:
    """The fault of an attempt (from 0) at a prompt; None for an answer."""
    share = unit(prompt, f"fault{seed}.{attempt}")
    for name, rate in faults.items():
        if share < rate:
            return name
        share -= rate
    return None


class Mock:
    """Options and counters, shared by all connections."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.used_at = time.monotonic()
        self.in_flight = 0
        self.reset()

    def reset(self) -> None:
        """Forget all counts."""
        self.counts: Counter[str] = Counter()
        self.phases: dict[str, Counter[str]] = {}
        self.phase = "main"
        self.attempts: Counter[str] = Counter()
        self.answered: set[str] = set()
        self.max_in_flight = 0
        self.bodies: list[Any] = []

    def count(self, name: str) -> None:
        """Count something, in total and for the current phase."""
        self.counts[name] += 1
        self.phases.setdefault(self.phase, Counter())[name] += 1

    def stats(self) -> dict[str, Any]:
        """The content of ``/stats``."""
        return {
            **{name: self.counts[name] for name in _COUNTED},
            "faults": {name: self.counts[f"fault_{name}"] for name in FAULTS if self.counts[f"fault_{name}"]},
            "distinct_prompts": len(self.attempts),
            "distinct_answered": len(self.answered),
            "max_in_flight": self.max_in_flight,
            "phases": {name: dict(counts) for name, counts in self.phases.items()},
            "bodies": self.bodies,
        }


class Connection(asyncio.Protocol):
    """One client connection; requests on it are answered one after the other."""

    def __init__(self, mock: Mock) -> None:
        self.mock = mock
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.parser = httptools.HttpRequestParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            if self.transport is not None:
                self.transport.abort()

    def on_message_begin(self) -> None:
        self.url = b""
        self.body = b""
        self.authorization = b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self.authorization = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        mock = self.mock
        mock.used_at = time.monotonic()
        path = self.url.split(b"?", 1)[0].decode()
        if path.endswith("/completions"):
            self._completion(chat=path.endswith("/chat/completions"))
        elif path == "/stats":
            self._send(200, orjson.dumps(mock.stats()))
        elif path == "/reset":
            mock.reset()
            self._send(200, b"{}")
        elif path.startswith("/phase/"):
            mock.phase = path.removeprefix("/phase/")
            self._send(200, b"{}")
        elif path.endswith("/models"):
            self._send(200, orjson.dumps({"object": "list", "data": [{"id": mock.options.model}]}))
        elif path == "/health":
            self._send(200, b"{}")
        else:
            self._error(404, "not found")

    def _completion(self, *, chat: bool) -> None:
        mock, options = self.mock, self.mock.options
        try:
            body = orjson.loads(self.body)
            prompt = _prompt_of(body)
        except (ValueError, KeyError, TypeError):
            self._error(400, "the body cannot be read")
            return
        mock.count("requests")
        if options.keep_bodies:
            mock.bodies.append(body)
        if options.api_key and self.authorization != f"Bearer {options.api_key}".encode():
            shown = self.authorization.removeprefix(b"Bearer ").decode(errors="replace")
            self._error(401, f"invalid API key {shown}".strip())
            return
        if body.get("model") != options.model:
            self._error(404, f"the model {body.get('model')!r} does not exist")
            return
        if options.max_concurrency and mock.in_flight >= options.max_concurrency:
            mock.count("overloaded")
            self._error(429, "too many requests in flight", b"retry-after: %d\r\n" % options.retry_after)
            return
        attempt = mock.attempts[prompt]
        mock.attempts[prompt] += 1
        if prompt in mock.answered:
            mock.count("resent_after_answer")
        fault = None
        if not options.fault_attempts or attempt < options.fault_attempts:
            fault = fault_of(prompt, attempt, options.faults, options.seed)
        mock.in_flight += 1
        mock.max_in_flight = max(mock.max_in_flight, mock.in_flight)
        if options.read_media:
            loop = asyncio.get_running_loop()
            reading = loop.run_in_executor(None, read_media, body)
            reading.add_done_callback(lambda done: self._finish(prompt, "context" if done.exception() else fault, body))
            return
        delay = options.hang_s if fault == "hang" else options.latency_ms / 1000
        if delay:
            asyncio.get_running_loop().call_later(delay, self._finish, prompt, fault, body)
        else:
            self._finish(prompt, fault, body)

    def _finish(self, prompt: str, fault: str | None, body: dict[str, Any]) -> None:
        mock, options = self.mock, self.mock.options
        mock.in_flight -= 1
        if fault:
            mock.count(f"fault_{fault}")
        if self.transport is None:
            mock.count("client_gone")
        elif fault == "429":
            self._error(429, "rate limited", b"retry-after: %d\r\n" % options.retry_after)
        elif fault == "500":
            self._error(500, "internal error")
        elif fault in {"403", "404"}:
            self._error(int(fault), "blocked by a firewall")
        elif fault == "model":
            self._error(400, "this prompt: the model does not exist")
        elif fault == "context":
            self._error(400, "This model's maximum context length is 8 tokens")
        elif fault == "malformed":
            self._send(200, b'{"choices": [{"index": 0, "mess')
        elif fault in {"reset", "hang"}:
            self.transport.abort()
        else:
            answer = self._answer(prompt, fault, body)
            if body.get("stream"):
                self._send(200, streamed(answer), content_type=b"text/event-stream")
            else:
                self._send(200, orjson.dumps(answer))
            mock.count("answered")
            mock.answered.add(prompt)
            if mock.counts["answered"] == options.die_after:
                os._exit(0)

    def _answer(self, prompt: str, fault: str | None, body: dict[str, Any]) -> dict[str, Any]:
        options, chat = self.mock.options, "messages" in body
        words = options.answer_words if unit(prompt, "long") < options.long_share else 0
        text = options.thinking + answer_to(prompt, options.accuracy, words)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length" if fault == "length" else "stop"}
        if not chat:
            choice["text"] = text
        elif fault == "refusal":
            choice["message"] = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
        elif body["messages"][-1]["role"] == "tool":
            choice["message"] = {"role": "assistant", "content": f"ANSWER: {body['messages'][-1]['content']}"}
        elif body.get("tools"):
            called = {"name": body["tools"][0]["function"]["name"], "arguments": orjson.dumps({"of": prompt}).decode()}
            calls = [{"id": "call_1", "type": "function", "function": called}]
            choice["message"] = {"role": "assistant", "content": None, "tool_calls": calls}
            choice["finish_reason"] = "tool_calls"
        else:
            choice["message"] = {"role": "assistant", "content": text}
        return {
            "id": "mock",
            "object": "chat.completion" if chat else "text_completion",
            "model": options.model,
            "choices": [choice],
            "usage": {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())},
        }

    def _error(self, status: int, message: str, headers: bytes = b"") -> None:
        self._send(status, orjson.dumps({"error": {"message": message}}), headers)

    def _send(
        self, status: int, payload: bytes, headers: bytes = b"", *, content_type: bytes = b"application/json"
    ) -> None:
        if self.transport is None:
            return
        head = b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n%s\r\n"
        self.transport.write(head % (status, _REASONS[status], content_type, len(payload), headers) + payload)


def read_media(body: dict[str, Any]) -> int:
    """Bytes of the media of a request: of its base64, and of what its URLs lead to."""
    read = 0
    for message in body["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            holder = part.get(part["type"])
            if isinstance(holder, dict):
                head, _, data = holder["url"].partition(";base64,")
                read += len(base64.b64decode(data)) if data else len(_open(head, timeout=30).read())
    return read


def streamed(answer: dict[str, Any]) -> bytes:
    """An answer as server-sent events: one event per word, then the usage."""
    (choice,) = answer["choices"]
    ends = {"index": 0, "finish_reason": choice["finish_reason"]}
    message = choice.get("message", {})
    words = re.findall(r"\s*\S+", choice.get("text") or message.get("content") or "")
    deltas: list[dict[str, Any]] = [{"delta": {"role": "assistant"}}] if "message" in choice else []
    deltas += [{"delta": {"content": word}} if "message" in choice else {"text": word} for word in words]
    for call in message.get("tool_calls", ()):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        deltas.append({"delta": {"tool_calls": [{**call, "index": 0, "function": {"name": name, "arguments": ""}}]}})
        deltas += [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": c}}]}} for c in arguments]
    chunks = [{"model": answer["model"], "choices": [{"index": 0, **delta}]} for delta in deltas]
    chunks += [{"choices": [{**ends, "delta": {}}]}, {"choices": [], "usage": answer["usage"]}]
    return b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def _prompt_of(body: dict[str, Any]) -> str:
    """The text of the last user message, or the prompt of a completion."""
    if "messages" not in body:
        return str(body["prompt"])
    content = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _fault(text: str) -> tuple[str, float]:
    name, _, rate = text.partition("=")
    if name not in FAULTS:
        raise argparse.ArgumentTypeError(f"no fault {name!r}; known: {', '.join(FAULTS)}")
    return name, float(rate)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--model", default="mock")
    parser.add_argument("--api-key", default="", help="refuse requests without this key")
    parser.add_argument("--accuracy", type=float, default=1.0)
    parser.add_argument("--thinking", default="", help="text before every answer")
    parser.add_argument("--answer-words", type=int, default=0)
    parser.add_argument("--long-share", type=float, default=1.0, help="share of the answers that are padded")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--max-concurrency", type=int, default=0, help="refuse more requests in flight with a 429")
    parser.add_argument("--fault", type=_fault, action="append", default=[], metavar="KIND=RATE")
    parser.add_argument("--fault-attempts", type=int, default=0, help="only the first N attempts at a prompt fail")
    parser.add_argument("--retry-after", type=int, default=1)
    parser.add_argument("--hang-s", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--idle-s", type=float, default=120.0, help="stop after that long without a request")
    parser.add_argument("--die-after", type=int, default=0, help="exit at once after that many answers")
    parser.add_argument("--read-media", action="store_true", help="decode base64 and fetch URLs, in threads")
    parser.add_argument("--keep-bodies", action="store_true", help="/stats shows what was sent")
    options = parser.parse_args(arguments)
    options.faults = dict(options.fault)
    return options


async def serve(options: argparse.Namespace) -> None:
    """Serve until no request comes for `idle_s` seconds, or the process is stopped."""
    mock = Mock(options)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(mock), "127.0.0.1", options.port, backlog=4096)
    print("PORT", server.sockets[0].getsockname()[1], flush=True)
    while mock.in_flight or time.monotonic() - mock.used_at < options.idle_s:  # noqa: ASYNC110 - a clock
        await asyncio.sleep(min(1.0, options.idle_s))
    server.close()


if __name__ == "__main__":
    try:
        uvloop.run(serve(options_of()))
    except KeyboardInterrupt:
        sys.exit(130)
