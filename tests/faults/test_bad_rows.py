"""Rows that always fail are told from an endpoint that is gone, by what it answered before."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from faults.results import answers
from support.runs import write_config

from gage_eval.base.errors import EndpointFailed
from gage_eval.runs.inline import run_inline
from gage_eval.runs.options import RunOptions

ROWS, BAD = 12, 4


class Endpoint:
    """Answers 500 to some sums, and to all once it is gone."""

    def __init__(self) -> None:
        self.bad: set[int] = set()
        self.is_gone = False
        self.asked: list[int] = []

    def answer(self, prompt: str) -> tuple[int, bytes]:
        number = int(prompt.split()[2])
        self.asked.append(number)
        if self.is_gone or number in self.bad:
            return 500, b'{"error": "crashed"}'
        return 200, b'{"choices": [{"message": {"content": "ANSWER: 1"}, "finish_reason": "stop"}]}'


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, answer = endpoint.answer(body["messages"][-1]["content"])
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.chdir(tmp_path)
    endpoint = Endpoint()
    with serving(endpoint) as url:
        backend = {"give_up_after": 0.2, "max_attempts": 3}
        tasks = [{"task_id": "sums", "dataset_id": "sums", "max_error_share": 1.0}]
        write_config(tmp_path, url, rows=ROWS, backend=backend, tasks=tasks)
        yield endpoint


def run(name: str) -> Counter[str]:
    """The statuses of a run's responses."""
    run_inline(RunOptions(config="sums.yaml", run_id=name))
    return Counter(row["status"] for row in answers(Path(), name))


def test_rows_that_always_fail_end_every_run_the_same_way(endpoint: Endpoint) -> None:
    endpoint.bad = set(range(ROWS - BAD, ROWS))
    wanted = {"ok": ROWS - BAD, "error": BAD}
    assert run("first") == wanted
    for again in ("second", "third"):
        endpoint.asked.clear()
        assert run(again) == wanted
        good = [number for number in endpoint.asked if number not in endpoint.bad]
        assert set(good) == {0}, "a row that was answered before is asked again, to tell the two"


def test_an_endpoint_that_is_gone_ends_the_run_though_it_answered_before(endpoint: Endpoint) -> None:
    endpoint.bad = set(range(ROWS - BAD, ROWS))
    run("first")
    endpoint.is_gone = True
    with pytest.raises(EndpointFailed, match="fails: every attempt failed"):
        run("second")


def test_an_endpoint_that_never_answered_ends_the_run(endpoint: Endpoint) -> None:
    endpoint.is_gone = True
    with pytest.raises(EndpointFailed, match="fails: every attempt failed"):
        run("first")
