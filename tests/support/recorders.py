"""Servers that take events: well-behaved ones and others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson


class Recorder:
    """A server that keeps what it is sent.

    Attributes:
        url: its address.
        bodies: (path, headers, body) of each POST that it accepted.
        tried: how many POSTs there were.
        refuse: how many of the next POSTs get status 500.
    """

    def __init__(self) -> None:
        self.bodies: list[tuple[str, dict[str, str], bytes]] = []
        self.tried = 0
        self.refuse = 0
        self.url = ""

    @property
    def events(self) -> list[dict[str, object]]:
        """All events that it accepted."""
        return [event for _, _, body in self.bodies for event in orjson.loads(body)["events"]]


@contextmanager
def recorder() -> Iterator[Recorder]:
    """A server that takes events."""
    taken = Recorder()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.tried += 1
            refused, taken.refuse = taken.refuse > 0, max(0, taken.refuse - 1)
            if not refused:
                taken.bodies.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(500 if refused else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    taken.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield taken
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def bad_recorder(behaviour: str) -> Iterator[str]:
    """The URL of a server that ``hangs`` (takes requests and says nothing), answers ``garbage``, or ``closes``."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connections.append(connection)
            if behaviour == "garbage":
                connection.recv(65536)
                connection.sendall(b"\0\xffno HTTP at all\r\n\r\n" * 100)
            if behaviour != "hangs":
                connection.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/events"
    finally:
        listening.close()
        for connection in connections:
            connection.close()
