"""The end of a run waits for its last reports: while the API takes them, and only then."""

import threading
import time

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient

from flows import reporter
from flows.reporter import Reporter
from tests.support.waiting import PATIENCE_S

NO_API = "http://127.0.0.1:9/api"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter waits."""
    monkeypatch.setattr(reporter, "_GONE_S", 0.5)
    monkeypatch.setattr(reporter, "_STALLED_S", PATIENCE_S)
    monkeypatch.setattr(reporter, "_LONGEST_END_S", PATIENCE_S)
    monkeypatch.setattr(reporter, "_RETRY_S", 0.05)


@pytest.mark.usefixtures("soon")
def test_a_slow_api_gets_all_reports() -> None:
    taken: list[int] = []

    def slow(number: int) -> reporter.Report:
        def report(client: SyncPrefectClient) -> None:
            time.sleep(0.2)  # What a busy server takes for an answer.
            taken.append(number)

        return report

    sender = Reporter(NO_API)
    for number in range(6):
        sender.send(slow(number))

    assert sender.close(), "all six take longer than the wait for one"
    assert taken == list(range(6))


@pytest.mark.usefixtures("soon")
def test_an_api_that_is_gone_does_not_hold_the_run() -> None:
    def report(client: SyncPrefectClient) -> None:
        raise httpx.ConnectError("refused")

    sender = Reporter(NO_API)
    sender.send(report)

    began = time.monotonic()
    assert not sender.close()
    assert time.monotonic() - began < PATIENCE_S / 2, "neither the longest wait nor that for a silent API"


@pytest.mark.usefixtures("soon")
def test_an_api_that_stalls_at_the_end_gets_the_reports_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_REQUEST_S", 0.4)
    tries: list[int] = []

    def report(client: SyncPrefectClient) -> None:
        tries.append(1)
        if len(tries) < 3:
            time.sleep(0.4)
            raise httpx.ReadTimeout("no answer")

    sender = Reporter(NO_API)
    sender.send(report)

    assert sender.close(), "the wait for an API that is gone is over before it answers"
    assert len(tries) == 3


@pytest.mark.usefixtures("soon")
def test_an_api_that_hangs_does_not_hold_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_STALLED_S", 2.0)
    answers = threading.Event()

    def report(client: SyncPrefectClient) -> None:
        answers.wait(PATIENCE_S)

    sender = Reporter(NO_API)
    sender.send(report)

    assert not sender.close()
    answers.set()


def test_the_longest_wait_ends_a_stream_of_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_STALLED_S", 0.3)
    monkeypatch.setattr(reporter, "_LONGEST_END_S", 0.6)
    sender = Reporter(NO_API)
    for _ in range(200):
        sender.send(lambda client: time.sleep(0.05))

    assert not sender.close()


@pytest.mark.usefixtures("soon")
def test_log_lines_that_the_api_refuses_hold_up_no_other_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not a log line")

    monkeypatch.setattr(SyncPrefectClient, "create_logs", refuse)
    taken: list[int] = []
    sender = Reporter(NO_API)
    sender.log({"message": "x"})
    sender.send(lambda client: taken.append(1))

    assert sender.close()
    assert taken == [1]
