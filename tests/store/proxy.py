"""A proxy before an S3 server that fails now and then, as servers do."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ERROR = b"<Error><Code>InternalError</Code><Message>planted</Message></Error>"


@contextmanager
def failing_proxy(target: str, *, every: int, lose_reply: bool) -> Iterator[str]:
    """Address of a proxy that answers each ``every``-th request with 500.

    Args:
        lose_reply: the server does what is asked before the 500 is sent; else it never hears of it.
    """
    goal = urlsplit(target)
    assert goal.hostname is not None
    host, port = goal.hostname, goal.port
    lock = threading.Lock()
    count = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            nonlocal count
            with lock:
                count += 1
                fails = count % every == 0
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, data = 500, [("Content-Type", "application/xml")], ERROR
            if lose_reply or not fails:
                status_, headers_, data_ = self._forward(body)
                if not fails:
                    status, headers, data = status_, headers_, data_
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(host, port)
            kept = {k: v for k, v in self.headers.items() if k.lower() not in ("expect", "connection")}
            connection.request(self.command, self.path, body, kept)
            reply = connection.getresponse()
            data = reply.read()
            skipped = ("transfer-encoding", "connection") + (() if self.command == "HEAD" else ("content-length",))
            headers = [(k, v) for k, v in reply.getheaders() if k.lower() not in skipped]
            connection.close()
            return reply.status, headers, data

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
