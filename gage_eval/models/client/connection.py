"""One HTTP/1.1 connection: a request is written, its answer is parsed, and the connection is kept for the next one."""

import asyncio
import math
import select
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import httptools

MAX_BODY = 256 * 2**20
# Of all bytes that are not body: status line, headers, answers before the answer, chunk sizes, trailers.
MAX_HEAD = 64 * 2**10
# A chunk of one byte takes six on the wire; more than this many for each byte of the body serve no honest server.
_WIRE_PER_BYTE = 17
# A body that is larger is written in pieces, so that it does not block the loop, and an early answer stops it.
_LARGE_BODY = 2**20
_PIECE = 2**18

_BODILESS = frozenset({204, 304})

Sink = Callable[[bytes], None]


class Broken(Exception):
    """The connection ended or broke the protocol before the answer was complete."""


class Unusable(Exception):
    """The answer is refused, whatever it says: it is too large, or compressed although that was not asked for."""


class Owner(Protocol):
    """Who keeps connections.

    Attributes:
        now: the loop's time.
        watches_idleness: whether connections note when bytes come.
    """

    now: Callable[[], float]
    watches_idleness: bool

    def opened(self, connection: "Connection") -> None:
        """A connection was made."""
        ...

    def lost(self, connection: "Connection") -> None:
        """A connection was closed."""
        ...


@dataclass(slots=True)
class Answer:
    """The answer to one request.

    Attributes:
        status: the status code, 200 or higher.
        headers: by name in lower case; the values of a repeated one are joined with commas.
        body: the whole body; empty where a sink took it.
    """

    status: int
    headers: dict[bytes, bytes]
    body: bytes

    def header(self, name: bytes) -> str | None:
        """The value of a header, by its name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip()


class Connection(asyncio.Protocol):
    """A connection to an endpoint or to its proxy. It has at most one request at a time.

    Attributes:
        transport: what it writes to.
        deadline: the loop's time at which its request is given up; infinite while it has none.
        heard_at: the loop's time of the request, or of the last bytes of its answer; kept where the client asks for it.
        idle_since: the loop's time since which it has no request.
        is_reusable: whether it can take another request once it has no other.
    """

    transport: asyncio.Transport

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._waiter: asyncio.Future[Answer] | None = None
        self._sink: Sink | None = None
        self._problem: Exception | None = None
        self._writable: asyncio.Future[None] | None = None
        self.is_reusable = True
        self.deadline = math.inf
        self.heard_at = self.idle_since = 0.0
        self.restart()

    def restart(self) -> None:
        """Expect the bytes of another party, after a proxy has opened its tunnel."""
        self._parser = httptools.HttpResponseParser(self)
        # As lenient as other clients: bare line feeds and blanks after a chunk's size.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)

    # What the client asks for.

    async def ask(
        self,
        head: bytes,
        body: bytes = b"",
        sink_of: Callable[[Answer], Sink | None] | None = None,
        *,
        is_tunnel: bool = False,
    ) -> Answer:
        """Send a request and wait for its answer.

        Args:
            head: request line and headers, with the empty line.
            body: sent after them.
            sink_of: called with an answer whose body has not come yet; the sink it returns gets the body's pieces.
            is_tunnel: the request is CONNECT: a good answer has no body.

        Raises:
            Broken: the connection ended before the answer did, or the answer is not HTTP.
            Unusable: the answer is too large, or compressed.
            Exception: what the sink raised.
        """
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        self._waiter = waiter
        self._sink_of, self._sink, self._is_tunnel = sink_of, None, is_tunnel
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._status = self._size = self._wire = 0
        self._complete = self._surplus = self._to_close = self._unsent = self._keep_alive = False
        self._problem = None
        try:
            if len(body) < _LARGE_BODY:
                self.transport.write(head + body)
            else:
                await self._write_pieces(head, body)
            return await waiter
        except BaseException:
            # Also when the caller is cancelled: what is still to come must not meet the next request.
            self.drop()
            raise

    @property
    def is_clean(self) -> bool:
        """Whether neither data nor EOF has arrived since the last answer. Asks the kernel, not the loop."""
        return not self.transport.is_closing() and not self._idle_poll.poll(0)

    def give_up(self, error: Exception) -> None:
        """Fail the request and close the connection."""
        self.is_reusable = False
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self.drop()

    def drop(self) -> None:
        """Close the connection now; a request that waits for its answer fails."""
        self.is_reusable = False
        self.transport.abort()

    async def _write_pieces(self, head: bytes, body: bytes) -> None:
        self._unsent = True
        self.transport.write(head)
        view = memoryview(body)
        for start in range(0, len(body), _PIECE):
            if self._waiter is None:
                # An early answer: the server does not want the rest.
                return
            self.transport.write(view[start : start + _PIECE])
            if self._writable is not None:
                await self._writable
        self._unsent = False

    # What the transport reports.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        # Asking asyncio for it costs a system call (`getpid`) for every request.
        self._loop = asyncio.get_running_loop()
        self._idle_poll = select.poll()
        self._idle_poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            # Not asked for.
            self.drop()
            return
        self._wire += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # A good answer came before it, or `on_headers_complete` has seen it.
            self._surplus = True
        except httptools.HttpParserError as error:
            self.give_up(self._problem or Broken(f"the answer is not HTTP: {error}"))
            return
        if self._problem is not None:
            self.give_up(self._problem)
        elif self._complete:
            self._finish()
        elif self._wire - _WIRE_PER_BYTE * self._size > MAX_HEAD:
            self.give_up(Unusable(f"an answer with more than {MAX_HEAD >> 10} KiB of headers"))
        elif self._owner.watches_idleness:
            self.heard_at = self._owner.now()

    def eof_received(self) -> None:
        if self._waiter is not None and self._to_close and self._problem is None:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self)
        where = "in the middle of its answer" if self._waiter is not None and self._wire else "without an answer"
        reason = f" ({_text(exc)})" if exc is not None else ""
        self.resume_writing()
        self.give_up(Broken(f"the server closed the connection {where}{reason}"))

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    # What the parser reports.

    def on_message_begin(self) -> None:
        if self._complete:
            self._surplus = True
        else:
            self._headers, self._status = {}, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers, which come after the body, are not kept.
        if not self._status:
            key = name.lower()
            known = self._headers.get(key)
            self._headers[key] = value if known is None else known + b", " + value

    def on_headers_complete(self) -> None:
        if self._surplus:
            return
        self._status = status = self._parser.get_status_code()
        if status < 200:
            if status < 100:
                self._problem = Broken(f"the answer is not HTTP: status {status:03}")
            elif status == 101:
                self._problem = Broken("the server switches to another protocol")
            return
        if self._is_tunnel and status < 300:
            # What follows is the tunnel's, and the other side waits for us to begin.
            self._complete = True
            return
        if self._sink_of is not None:
            self._sink = self._sink_of(Answer(status, self._headers, b""))
        if status not in _BODILESS:
            self._check_body()

    def _check_body(self) -> None:
        """How the body ends, and whether it may come at all."""
        headers = self._headers
        coded = headers.get(b"transfer-encoding")
        length = headers.get(b"content-length")
        if coded is not None:
            coding = coded.strip(b" ").lower()
            if coding == b"identity":
                self._to_close = True
            elif coding != b"chunked":
                self._problem = Unusable(f"an answer in the transfer coding {_shown(coded)}, which was not asked for")
        elif length is None:
            self._to_close = True
        elif int(length) > MAX_BODY:
            self._problem = Unusable(f"an answer of more than {MAX_BODY >> 20} MiB")
        packed = headers.get(b"content-encoding")
        if packed is not None and packed.strip().lower() not in (b"", b"identity"):
            self._problem = Unusable(f"a compressed answer ({_shown(packed)}), which was not asked for")

    def on_body(self, data: bytes) -> None:
        if self._complete:
            # Of another message, or of the tunnel.
            self._surplus = True
            return
        self._size += len(data)
        if self._size > MAX_BODY:
            self._problem = Unusable(f"an answer of more than {MAX_BODY >> 20} MiB")
        elif self._sink is None:
            self._body.append(data)
        elif self._problem is None:
            try:
                self._sink(data)
            except Exception as error:  # noqa: BLE001 - the caller's, to whom it is raised
                self._problem = error

    def on_message_complete(self) -> None:
        if self._status >= 200:
            self._complete = True
            # The parser forgets it with the message.
            self._keep_alive = self._parser.should_keep_alive()

    def _finish(self) -> None:
        waiter, self._waiter = self._waiter, None
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        ends = self._to_close or self._unsent or not self._keep_alive
        if self._surplus or (ends and not self._is_tunnel):
            # Bytes after the end of an answer are not wanted, even where they look like another one.
            self.is_reusable = False
        assert waiter is not None
        if not waiter.done():
            waiter.set_result(Answer(self._status, self._headers, body))
        if self._writable is not None:
            self.resume_writing()
        if not self.is_reusable:
            self.transport.abort()


def _shown(value: bytes) -> str:
    return value[:40].decode("latin-1").strip()


def _text(error: Any) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
