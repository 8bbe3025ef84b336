"""What the server knows of the end of a run of this process."""

import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas import State
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import Pause
from prefect.states import Completed, Pending, Suspended

from flows import own
from flows.own import OwnRun
from gage_eval.runs import RunOptions
from tests.support.workspace import write_config, write_rows


@pytest.mark.parametrize(
    ("end", "is_reported"),
    [(Completed(), True), (Pending(), False), (Pause(state=Suspended()), True), (ConnectionError("gone"), False)],
    ids=["completed", "not begun", "suspended", "unanswered"],
)
def test_only_an_end_that_the_server_does_not_know_is_left_to_a_later_command(
    monkeypatch: pytest.MonkeyPatch, end: "State[Any] | BaseException", is_reported: bool
) -> None:
    def run_flow(*_: Any, **__: Any) -> "State[Any]":
        if isinstance(end, BaseException):
            raise end
        return end

    monkeypatch.setattr(own, "run_flow", run_flow)
    run = OwnRun(RunOptions(config="mine.yaml"))
    run._run_flow(None, {}, FlowRun(flow_id=uuid4()))  # type: ignore[arg-type]
    assert run.is_reported == is_reported


@pytest.mark.parametrize("engine", ["ends", "waits"])
def test_a_run_whose_flow_the_server_does_not_let_begin_is_carried_out_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    given_up = threading.Event()

    def run_flow(*_: Any, **__: Any) -> "State[Any]":
        if engine == "waits":
            given_up.wait()
        raise ConnectionError("the server is gone")

    monkeypatch.setattr(own, "run_flow", run_flow)
    for name in ("_BEGIN_S", "_WAKE_EVERY_S", "_LEAST_S", "LAST_S"):
        monkeypatch.setattr(own, name, 0.01)
    monkeypatch.setattr(own, "_bound_the_exit", lambda patience_s: None)
    write_rows(tmp_path, 3)
    file = write_config(tmp_path, "sums.yaml", backends=[{"backend_id": "model", "type": "dummy"}])
    run = OwnRun(RunOptions(config=str(file), store=str(tmp_path / "store")))
    run.carry_out(None, {}, FlowRun(flow_id=uuid4()))  # type: ignore[arg-type]
    given_up.set()
    assert run.outcome is not None
    assert not run.is_reported
