"""A small HTTP server for programs in a box and for engines, which may send anything."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import httptools

from gage_eval.base.canonical import JsonValue, canonical_json

LARGEST = 16 << 20
"""Bytes of a request of a program, headers included."""


@dataclass
class HTTPRequest:
    """A request. Names of headers are in lower case."""

    method: str = ""
    target: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    keeps_open: bool = True


@dataclass(frozen=True)
class Reply:
    """What is sent back."""

    status: int
    body: bytes
    content_type: str = "application/json"
    lost: Callable[[], None] = lambda: None
    """Called where the other side no longer takes it."""


class Refusal(Exception):
    """A request that is not answered: its status and a sentence for the program."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status

    @property
    def reply(self) -> Reply:
        """In the form of OpenAI's and of Anthropic's errors."""
        error: JsonValue = {"type": "invalid_request_error", "message": str(self), "param": None, "code": None}
        return Reply(self.status, canonical_json({"type": "error", "error": error}))


class HTTPServer:
    """Answers requests, each connection's one after the other.

    Args:
        answer: gives the reply to a request; may raise `Refusal`.
        largest: bytes of a request, headers included.
        connections: how many there may be at a time; others are closed at once.
        idle_s: seconds after which a connection without a byte of a request is closed; None for no limit.
    """

    def __init__(
        self,
        answer: Callable[[HTTPRequest], Awaitable[Reply]],
        *,
        largest: int = LARGEST,
        connections: int = 32,
        idle_s: float | None = None,
    ) -> None:
        self._answer = answer
        self._largest, self._most, self._idle_s = largest, connections, idle_s
        self._connections: set[asyncio.Task[None]] = set()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, for `asyncio.start_server`."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) == self._most:
            writer.close()
            return
        self._connections.add(task)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            # The other side has gone, or dropped its request; or its time is over.
            return
        finally:
            self._connections.discard(task)
            writer.close()

    def close(self) -> None:
        """End all connections."""
        for task in self._connections:
            task.cancel()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = _Messages()
        parser = messages.parser
        while data := await self._next(reader):
            messages.read += len(data)
            if messages.read > self._largest:
                refusal = Refusal(413, f"the request has more than {self._largest:,} bytes")
                writer.write(_written(refusal.reply, keeps=False, has_body=True))
                # Otherwise a program that is still sending would not get it.
                while data and messages.read < 16 * self._largest:
                    data = await self._next(reader)
                    messages.read += len(data)
                return
            try:
                parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                upgrades = isinstance(error, httptools.HttpParserUpgrade)
                said = "no connection is upgraded here: ask in plain HTTP/1.1" if upgrades else "this is not HTTP/1.1"
                writer.write(_written(Refusal(400, said).reply, keeps=False, has_body=True))
                return
            while messages.complete:
                request = messages.complete.pop(0)
                try:
                    reply = await self._answer(request)
                except Refusal as refusal:
                    reply = refusal.reply
                if reader.at_eof():
                    reply.lost()
                    return
                writer.write(_written(reply, keeps=request.keeps_open, has_body=request.method != "HEAD"))
                try:
                    await writer.drain()
                except ConnectionError:
                    reply.lost()
                    return
                if not request.keeps_open:
                    return

    async def _next(self, reader: asyncio.StreamReader) -> bytes:
        async with asyncio.timeout(self._idle_s):
            return await reader.read(1 << 16)


class _Messages:
    """Requests as the parser finds them; the names of the methods are the parser's."""

    def __init__(self) -> None:
        self.complete: list[HTTPRequest] = []
        self.read = 0
        self._request = HTTPRequest()
        self._target, self._body = b"", bytearray()
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self._request, self._target, self._body = HTTPRequest(), b"", bytearray()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._request.method = self.parser.get_method().decode("latin-1")
        self._request.target, self._request.body = self._target.decode("latin-1"), bytes(self._body)
        self.complete.append(self._request)
        self.read = 0
        # Later the parser has forgotten it.
        self._request.keeps_open = self.parser.should_keep_alive()


def _written(reply: Reply, *, keeps: bool, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n"
        f"Content-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
        f"Connection: {'keep-alive' if keeps else 'close'}\r\n\r\n"
    )
    return head.encode() + (reply.body if has_body else b"")
