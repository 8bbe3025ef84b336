"""What the server knows of the end of a run of this process."""

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
