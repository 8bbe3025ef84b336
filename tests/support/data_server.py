"""An HTTP server on loopback that serves files of a pinned origin, and misbehaves as it is told."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class DataServer:
    """What the server serves and what it was asked.

    Attributes:
        url: its address.
        files: content by path.
        cut: so many bytes are sent of a file before the connection closes, for the first requests of it.
        cuts: how many requests of each file are cut off.
        statuses: what is answered instead of the file, one after another.
        redirects: whether every path is first answered with a redirect.
        ranges: whether requests for the rest of a file are honoured.
        requests: (path, Range header) of each request.
    """

    files: Mapping[str, bytes]
    url: str = ""
    cut: int | None = None
    cuts: int = 0
    statuses: list[int] = field(default_factory=list)
    redirects: bool = False
    ranges: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def requests_of(self, path: str) -> list[str | None]:
        """The Range headers of the requests of a file."""
        return [header for name, header in self.requests if name == path]


@contextmanager
def serving(files: Mapping[str, bytes], **how: Any) -> Iterator[DataServer]:
    """Serve files by their paths."""
    state = DataServer(files, **how)
    done: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path, wanted = self.path.lstrip("/"), self.headers.get("Range")
            state.requests.append((path, wanted))
            if state.redirects and not path.startswith("moved/"):
                self._head(302, {"Location": f"{state.url}/moved/{path}", "Content-Length": "0"})
                return
            path = path.removeprefix("moved/")
            if state.statuses:
                self._head(state.statuses.pop(0), {"Content-Length": "0"})
                return
            if path not in state.files:
                self._head(404, {"Content-Length": "0"})
                return
            data = state.files[path]
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and state.ranges else 0
            size = {"Content-Length": str(len(data) - start)}
            if start:
                self._head(206, {**size, "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"})
            else:
                self._head(200, size)
            done[path] += 1
            cut = state.cut is not None and done[path] <= state.cuts
            self.wfile.write(data[start : start + state.cut] if cut else data[start:])
            self.close_connection = cut

        def _head(self, status: int, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
