"""The worker of the local server: one for each server, stopped with it, and its failures are told."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gage_eval.base.errors import GageError
from gage_eval.base.processes import alive
from gage_eval.local import server
from tests.support.waiting import wait_for

RUNNING = server.PrefectServer(pid=1, group=1, born=1, port=4200)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    server.stop(tmp_path)


def _worker_is(monkeypatch: pytest.MonkeyPatch, script: str) -> list[tuple[str, ...]]:
    """A shell script stands in for Prefect's command. Returns the arguments that it was given."""
    commands: list[tuple[str, ...]] = []

    def command(*arguments: str) -> list[str]:
        commands.append(arguments)
        return ["/bin/sh", "-c", script]

    monkeypatch.setattr(server, "_prefect", command)
    return commands


def test_a_worker_is_started_once_and_stops_with_the_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = _worker_is(monkeypatch, "echo \"Worker 'gage' started!\"; sleep 300")
    assert server.start_worker(RUNNING, "local", home)
    worker = server.WORKER.find(home)
    assert worker is not None
    assert not server.start_worker(RUNNING, "local", home), "it is running already"
    assert [arguments[:4] for arguments in commands] == [("worker", "start", "--pool", "local")]

    server.stop(home)
    assert server.WORKER.find(home) is None
    assert not alive(worker.pid, worker.born)


def test_a_worker_whose_keeper_was_killed_is_still_the_one_worker(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _worker_is(monkeypatch, "echo \"Worker 'gage' started!\"; exec sleep 300")
    server.start_worker(RUNNING, "local", home)
    worker = wait_for(lambda: _named(home), "the record names the worker")
    os.kill(worker.group, signal.SIGKILL)
    os.waitpid(worker.group, 0)
    assert server.WORKER.find(home) == worker
    assert not server.start_worker(RUNNING, "local", home), "it is running already"
    server.stop(home)
    assert not alive(worker.pid, worker.born)


def test_a_worker_of_a_server_that_came_back_on_another_port_is_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _worker_is(monkeypatch, "echo \"Worker 'gage' started!\"; exec sleep 300")
    server.start_worker(RUNNING, "local", home)
    old = server.WORKER.find(home)
    assert old is not None
    assert server.start_worker(RUNNING.model_copy(update={"port": 4201}), "local", home)
    new = server.WORKER.find(home)
    assert new is not None
    assert new.port == 4201
    assert not alive(old.pid, old.born)


def test_ten_starts_at_once_leave_one_server_and_one_worker(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = _worker_is(monkeypatch, "echo \"Worker 'gage' started!\"; exec sleep 300")
    monkeypatch.setattr(server, "answers", lambda health: True)

    def start(_: int) -> int:
        with server.one_at_a_time(home):
            running, _fresh = server.start(home)
            server.start_worker(running, "local", home)
            return running.port

    with ThreadPoolExecutor(10) as threads:
        ports = list(threads.map(start, range(10)))
    assert len(set(ports)) == 1
    assert [arguments[:2] for arguments in commands] == [("server", "start"), ("worker", "start")]


def _named(home: Path) -> server.Server | None:
    worker = server.WORKER.find(home)
    return worker if worker is not None and worker.pid != worker.group else None


def test_a_worker_that_ends_at_its_start_is_told_with_its_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _worker_is(monkeypatch, "echo no such pool; exit 3")
    with pytest.raises(GageError, match=r"the worker ended at its start \(exit code 3\):\nno such pool"):
        server.start_worker(RUNNING, "local", home)
    assert server.WORKER.find(home) is None


@pytest.mark.parametrize("text", ["", "{}", "no json"])
def test_a_damaged_record_is_no_worker(home: Path, text: str) -> None:
    (home / "worker.json").write_text(text)
    assert server.WORKER.find(home) is None
