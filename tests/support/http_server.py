"""A server on loopback that sends what a test tells it, byte for byte."""

import asyncio
import inspect
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from gage_eval.models.client.http1 import HTTPClient
from gage_eval.models.client.route import route_to

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on asyncio's loop and on uvloop's."""

    def run(new_loop: Callable[[], asyncio.AbstractEventLoop], **arguments: Any) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(**arguments))

    parameters = inspect.signature(test).parameters.values()
    added = inspect.Parameter("new_loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = inspect.Signature([*parameters, added])  # type: ignore[attr-defined]
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__dict__.update(test.__dict__)
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return pytest.mark.parametrize("new_loop", loops.values(), ids=loops.keys())(run)


@dataclass
class ScriptedServer:
    """A server that follows a script, and what came in.

    Attributes:
        url: the server's base URL.
        port: where it listens.
        requests: the requests, head and body, in order.
        connections: how many connections were made.
        names: the server names of TLS handshakes.
    """

    url: str = ""
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    names: list[str | None] = field(default_factory=list)


class Exchange:
    """One connection, as the script of a server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: ScriptedServer) -> None:
        self.reader, self.writer, self.seen = reader, writer, seen
        self._last: object = None

    async def request(self) -> bytes:
        """The next request.

        Raises:
            asyncio.IncompleteReadError: the client closed the connection.
        """
        head = await self.reader.readuntil(b"\r\n\r\n")
        self._last = None
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        request = head + await self.reader.readexactly(length)
        self.seen.requests.append(request)
        return request

    def hang_up_after(self, seconds: float) -> None:
        """Close the connection if no other request comes within that time."""
        mine = self._last = object()

        def look() -> None:
            if self._last is mine:
                self.writer.close()

        asyncio.get_running_loop().call_later(seconds, look)

    async def send(self, *pieces: bytes) -> None:
        """Send pieces, each in a packet of its own as far as the kernel allows."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.005)


Script = Callable[[Exchange], Awaitable[None]]


async def answer_all(exchange: Exchange) -> None:
    """Answer every request with an empty object."""
    while True:
        await exchange.request()
        await exchange.send(OK)


@asynccontextmanager
async def served(
    script: Script = answer_all,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    socket_path: str | None = None,
) -> AsyncIterator[ScriptedServer]:
    """Run a script for each connection."""
    seen = ScriptedServer()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        seen.connections += 1
        try:
            await script(Exchange(reader, writer, seen))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    if tls is not None:
        tls.sni_callback = lambda _socket, name, _context: seen.names.append(name)
    if socket_path is not None:
        server = await asyncio.start_unix_server(connected, socket_path)
        seen.url = f"http+unix://{socket_path.replace('/', '%2F')}/v1"
    else:
        server = await asyncio.start_server(connected, host, 0, ssl=tls)
        seen.port = server.sockets[0].getsockname()[1]
        seen.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{seen.port}/v1"
    try:
        yield seen
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def client_of(
    url: str,
    *,
    env: dict[str, str] | None = None,
    certificate: str | None = None,
    timeout_s: float = 120.0,
    connect_timeout_s: float = 60.0,
    idle_timeout_s: float | None = None,
) -> AsyncIterator[HTTPClient]:
    """A client of a URL, closed at the end."""
    client = HTTPClient(
        route_to(url, env or {}, certificate),
        headers={},
        env=env or {},
        timeout_s=timeout_s,
        connect_timeout_s=connect_timeout_s,
        idle_timeout_s=idle_timeout_s,
    )
    try:
        yield client
    finally:
        await client.close()
