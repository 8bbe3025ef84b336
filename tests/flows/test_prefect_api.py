"""Commands wait for a Prefect API that is slow, and fail at once for one that is gone."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import httpx
import pytest

from flows import api
from flows.api import is_unanswered, patient_client


@contextmanager
def server_that_stalls(requests: float) -> Iterator[str]:
    """A server that takes connections and answers none of its first requests. Yields its URL."""
    over = Event()
    seen = iter(range(1_000_000))

    class Stalling(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if next(seen) < requests:
                over.wait()
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"true")

        def log_request(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Stalling) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/api"
        finally:
            over.set()
            server.shutdown()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_HEALTH_S", 0.3)


@pytest.mark.usefixtures("soon")
def test_a_command_waits_for_an_api_that_stalls_and_says_so_once() -> None:
    told: list[str] = []

    with server_that_stalls(3) as url, patient_client(url, told.append) as client:
        assert client.api_healthcheck() is None

    assert told == [f"the Prefect API at {url} is silent; waiting up to 120 s for its answer."]


@pytest.mark.usefixtures("soon")
def test_a_command_gives_up_on_an_api_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_PATIENCE_S", 0.5)

    with (
        server_that_stalls(float("inf")) as url,
        pytest.raises(httpx.ReadTimeout) as failure,
        patient_client(url, lambda text: None),
    ):
        pytest.fail("nothing answers")

    assert is_unanswered(failure.value)


def test_a_command_does_not_wait_for_an_api_that_is_gone() -> None:
    told: list[str] = []

    with pytest.raises(httpx.ConnectError) as failure, patient_client("http://127.0.0.1:9/api", told.append):
        pytest.fail("nothing listens there")

    assert is_unanswered(failure.value)
    assert told == []
