"""An endpoint that answers some questions as it is told, and all others well."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOOD = b'{"choices":[{"message":{"content":"good"},"finish_reason":"stop"}]}'


@contextmanager
def hostile_server(replies: Mapping[str, bytes]) -> Iterator[str]:
    """Serve replies by a word of the question; gives the base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = self.rfile.read(int(self.headers["content-length"])).decode()
            reply = next((reply for word, reply in replies.items() if f"<{word}>" in request), GOOD)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
