"""Promises of a run's session: one that cannot begin leaves nothing open and says how it ended."""

import threading
import time
from pathlib import Path

import pytest

from gage_eval.observability.events import Event, RunStarted
from gage_eval.runs import RunOptions, RunSession, session
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from tests.support.workspace import write_config, write_rows


class Refuses:
    """An observer that fails at the first event."""

    def emit(self, event: Event) -> None:
        assert isinstance(event, RunStarted)
        raise ValueError("nobody listens")


@pytest.mark.parametrize("place", ["_runtime", "_env", "an observer"])
def test_a_session_that_cannot_begin_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path)
    before = set(threading.enumerate())
    observers = [Refuses()] if place == "an observer" else []
    if not observers:

        def refuse(*args: object) -> None:
            raise ValueError("nobody listens")

        monkeypatch.setattr(session.RunSession, place, refuse)
    with pytest.raises(ValueError, match="nobody listens"):
        RunSession(RunOptions(config="mine.yaml", store="store", run_id="first"), observers)
    assert set(threading.enumerate()) <= before
    record = RunFolder.open(Locations.at("store"), "first").record()
    assert (record.status, record.error) == ("failed", "nobody listens")


def test_the_seconds_of_a_run_do_not_depend_on_the_clock_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path)
    with RunSession(RunOptions(config="mine.yaml", store="store", run_id="first")) as running:
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() - 86_400)
        assert 0 <= running.seconds < 3_600
