"""A stand-in for an endpoint that answers sums, whose answers a test changes."""

import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ChangingModel(BaseHTTPRequestHandler):
    """A stand-in for an exact engine: right sums, but for those that a test has changed.

    Attributes:
        changed: what it says to some sums instead.
        drifting: sums that get another answer each time.
        down: whether it refuses everything.
    """

    protocol_version = "HTTP/1.1"
    changed: dict[int, str]
    drifting: set[int]
    down: bool
    numbers: list[int]
    count: Iterator[int]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match = re.search(r"(\d+) \+ 1 = \?", body["messages"][-1]["content"])
        answer = "Hello."
        if match is not None:
            number = int(match[1])
            self.numbers.append(number)
            answer = self.changed.get(number, str(number + 1))
            answer += f" or {next(self.count)}" if number in self.drifting else ""
        choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
        data = json.dumps({"choices": [choice]}).encode()
        self.send_response(400 if self.down else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


class _Server(ThreadingHTTPServer):
    # A client that connects often at once would wait a second for each connection that is not queued.
    request_queue_size = 128


@contextmanager
def changing_model() -> Iterator[tuple[str, type[ChangingModel]]]:
    """The base URL of a model that answers right, and the model."""

    class Model(ChangingModel): ...

    Model.changed, Model.drifting, Model.down, Model.numbers, Model.count = {}, set(), False, [], itertools.count()
    server = _Server(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", Model
    finally:
        server.shutdown()
        server.server_close()
