"""A server on loopback with files, statuses and redirects by path."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FileServer:
    """A running server.

    Attributes:
        port: where it listens.
        requests: the paths of the requests, in order.
        hosts: what the requests say is the host.
        hold: set when answers that are held may go on.
    """

    port: int
    requests: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def file_server(files: Mapping[str, bytes | int | str | tuple[int, bytes]]) -> Iterator[FileServer]:
    """Serve bytes; a number is a status, a text an address to redirect to.

    A pair is a length that is said and fewer bytes than that: then the connection ends. Where the length is negative,
    nothing more comes until `FileServer.hold` is set.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append(self.path)
            server.hosts.append(self.headers["Host"])
            thing = files.get(self.path.partition("?")[0], 404)
            length, data = (len(thing), thing) if isinstance(thing, bytes) else (0, b"")
            if isinstance(thing, tuple):
                length, data = thing
            self.send_response(thing if isinstance(thing, int) else 302 if isinstance(thing, str) else 200)
            if isinstance(thing, str):
                self.send_header("Location", thing)
            self.send_header("Content-Length", str(abs(length)))
            if self.path.endswith(".gz"):
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(data)
            if isinstance(thing, tuple) and length < 0:
                server.hold.wait(60)

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server = FileServer(listening.server_port)
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.hold.set()
        listening.shutdown()
        thread.join()
        listening.server_close()
