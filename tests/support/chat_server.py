"""A chat endpoint that answers as a test says, and keeps what it was asked."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

# From the body of a request to the text of the answer; or to the fields of a choice; or to the code of a refusal,
# perhaps with what it says.
Reply = Callable[[dict[str, Any]], str | dict[str, Any] | int | tuple[int, str]]


class ChatServer:
    """A running endpoint.

    Attributes:
        url: its base URL.
        reply: answers; may be replaced, and is called in a thread for each request.
        asked: the bodies of all requests.
    """

    def __init__(self, url: str, reply: Reply) -> None:
        self.url = url
        self.reply = reply
        self.asked: list[dict[str, Any]] = []


@contextmanager
def chat_server(reply: Reply) -> Iterator[ChatServer]:
    """Serve a chat endpoint on loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.asked.append(body)
            said, message = served.reply(body), "no"
            if isinstance(said, tuple):
                said, message = said
            status = said if isinstance(said, int) else 200
            fields = {"message": {"content": said}} if isinstance(said, str) else said
            answer = {"choices": [{"index": 0, "finish_reason": "stop", **fields}]} if isinstance(fields, dict) else {}
            data = orjson.dumps(answer or {"error": {"message": message}})
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = ChatServer(f"http://127.0.0.1:{server.server_address[1]}/v1", reply)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
