"""The worker of the local server: started once, stopped with the server, and its failures are told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gage_eval.base.errors import GageError
from gage_eval.base.processes import alive
from gage_eval.local import server

RUNNING = server.Running(pid=1, born=1, port=4200)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    server.stop(tmp_path)


def _worker_is(monkeypatch: pytest.MonkeyPatch, script: str) -> list[tuple[str, ...]]:
    """A shell script stands in for Prefect's command. Returns the arguments that it was given."""
    given: list[tuple[str, ...]] = []

    def command(*arguments: str) -> list[str]:
        given.append(arguments)
        return ["/bin/sh", "-c", script]

    monkeypatch.setattr(server, "_prefect", command)
    return given


def test_a_worker_is_started_once_and_stops_with_the_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = _worker_is(monkeypatch, "echo \"Worker 'gage' started!\"; sleep 60")
    assert server.start_worker(RUNNING, "local", home)
    worker = server.WORKER.find(home)
    assert worker is not None
    assert not server.start_worker(RUNNING, "local", home), "it is running already"
    assert [arguments[:4] for arguments in given] == [("worker", "start", "--pool", "local")]

    server.stop(home)
    assert server.WORKER.find(home) is None
    assert not alive(worker.pid, worker.born)


def test_a_worker_that_ends_at_its_start_is_told_with_its_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _worker_is(monkeypatch, "echo no such pool; exit 3")
    with pytest.raises(GageError, match=r"the worker ended at its start \(exit code 3\):\nno such pool"):
        server.start_worker(RUNNING, "local", home)
    assert server.WORKER.find(home) is None


@pytest.mark.parametrize("text", ["", "{}", "no json"])
def test_a_damaged_record_is_no_worker(home: Path, text: str) -> None:
    (home / "worker.json").write_text(text)
    assert server.WORKER.find(home) is None
