"""A proxy before an S3 server that fails as servers and networks do."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

Fault: TypeAlias = Literal["error", "lost", "slow_down", "slow", "cut"]
"""What happens to a request.

``error``: 500, the server never hears of it. ``lost``: it is done, but the answer is 500. ``slow_down``: 503 SlowDown,
the server never hears of it. ``slow``: the answer takes a while. ``cut``: it is done, and the connection breaks in the
middle of the answer.
"""

_ERRORS: dict[str, tuple[int, bytes]] = {
    "error": (500, b"<Error><Code>InternalError</Code><Message>planted</Message></Error>"),
    "lost": (500, b"<Error><Code>InternalError</Code><Message>planted</Message></Error>"),
    "slow_down": (503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"),
}
_HOP = ("transfer-encoding", "connection", "keep-alive")


@dataclass
class Proxy:
    """A proxy that runs, and what it does to requests. Attributes may be changed at any time.

    Attributes:
        address: where it listens; the same after an outage.
        faults: what happens to each ``every``-th request, in turns.
        every: 0 for no faults.
        latency_s: wait before each answer.
        slow_s: wait before an answer that is slow.
        requests: count of requests.
        most_at_once: most requests that were under way together.
        faulted: count of faults by kind.
    """

    host: str
    port: int
    faults: tuple[Fault, ...] = ("error",)
    every: int = 0
    latency_s: float = 0.0
    slow_s: float = 2.0
    requests: int = 0
    most_at_once: int = 0
    faulted: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _server: "ThreadingHTTPServer | None" = field(default=None, repr=False)
    _own_port: int = 0
    _under_way: int = 0
    _connections: set[Any] = field(default_factory=set, repr=False)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._own_port}"

    def start(self) -> None:
        """Listen; after an outage at the same address."""
        self._server = _Server(("127.0.0.1", self._own_port), _handler(self))
        self._own_port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Be gone: connections break, and new ones are refused."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(2)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """One request under way."""
        with self._lock:
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def next_fault(self) -> Fault | None:
        """What happens to the request that has just come."""
        with self._lock:
            self.requests += 1
            if not self.every or self.requests % self.every:
                return None
            fault = self.faults[self.requests // self.every % len(self.faults)]
            self.faulted[fault] = self.faulted.get(fault, 0) + 1
            return fault


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet: clients and this proxy break connections on purpose."""


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            proxy._connections.add(self.connection)

        def finish(self) -> None:
            proxy._connections.discard(self.connection)
            super().finish()

        def _serve(self) -> None:
            with proxy.counted():
                self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.next_fault()
            time.sleep(proxy.latency_s + (proxy.slow_s if fault == "slow" else 0.0))
            status, headers, data = 0, [("Content-Type", "application/xml")], b""
            if fault not in ("error", "slow_down"):
                status, headers, data = self._forward(body)
            if fault in _ERRORS:
                status, data = _ERRORS[fault]
                headers = [("Content-Type", "application/xml")]
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(data)))
            if fault == "cut":
                self._cut(data)
                return
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _cut(self, data: bytes) -> None:
            """Half of the body, or half of the headers where there is no body."""
            if data and self.command != "HEAD":
                self.end_headers()
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
            self.close_connection = True

        def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(proxy.host, proxy.port)
            kept = {k: v for k, v in self.headers.items() if k.lower() not in ("expect", "connection")}
            connection.request(self.command, self.path, body, kept)
            reply = connection.getresponse()
            data = reply.read()
            skipped = (*_HOP, *(() if self.command == "HEAD" else ("content-length",)))
            headers = [(k, v) for k, v in reply.getheaders() if k.lower() not in skipped]
            connection.close()
            return reply.status, headers, data

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    return Handler


@contextmanager
def failing_proxy(target: str, *, every: int = 0, faults: tuple[Fault, ...] = ("error",)) -> Iterator[Proxy]:
    """A proxy before an S3 server.

    Args:
        target: address of the server.
        every: each ``every``-th request fails; 0 for none.
        faults: how, in turns.
    """
    goal = urlsplit(target)
    assert goal.hostname is not None
    assert goal.port is not None
    proxy = Proxy(goal.hostname, goal.port, faults, every)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
