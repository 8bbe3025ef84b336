"""Runs that no automation has resumed are resumed once, and a worker's second report of a crash is taken back."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType
from support.waiting import wait_for

from flows.lost_runs import resume_lost, take_back
from flows.states import ABORTED, CRASHED, LOST

SECOND_REPORT = "Flow run infrastructure exited with non-zero status code -9."


class Api:
    """A Prefect API with some flow runs."""

    def __init__(self, *runs: FlowRun, enabled: bool = True) -> None:
        self.runs = runs
        self.enabled = enabled
        self.set: list[State[Any]] = []

    def read_automations_by_name(self, name: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(enabled=self.enabled)]

    def read_flow_runs(self, **_: Any) -> tuple[FlowRun, ...]:
        return self.runs

    def update_flow_run(self, *_: Any, **__: Any) -> None: ...

    def set_flow_run_state(self, flow_run_id: Any, state: State[Any], *, force: bool) -> None:
        self.set.append(state)


def run(
    kind: str,
    name: str | None = None,
    message: str | None = None,
    *,
    pid: str | None = None,
    starts: int = 1,
    age: int = 0,
) -> FlowRun:
    timestamp = datetime.now(UTC) - timedelta(seconds=age)
    state: State[Any] = State(type=StateType(kind), name=name, message=message, timestamp=timestamp)
    return FlowRun(flow_id=uuid4(), deployment_id=uuid4(), state=state, infrastructure_pid=pid, run_count=starts)


@pytest.fixture(scope="module")
def gone() -> str:
    """A process of this machine that has ended, as Prefect names it."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return str(ended.pid)


def resumed(*runs: FlowRun, enabled: bool = True, is_local: bool = True) -> list[str | None]:
    api = Api(*runs, enabled=enabled)
    resume_lost(api, is_local=is_local)  # type: ignore[arg-type]
    return [state.name for state in api.set]


def test_a_run_whose_process_is_gone_is_resumed_once(gone: str) -> None:
    assert resumed(run("RUNNING", pid=gone)) == ["AwaitingRetry"]
    assert resumed(run("PENDING", pid=gone, starts=0)) == ["AwaitingRetry"]
    assert resumed(run("CANCELLING", pid=gone)) == ["Cancelled"]
    assert resumed(run("RUNNING", pid=gone, starts=2)) == []
    assert resumed(run("RUNNING", pid=gone), enabled=False) == []


def begins(process: "subprocess.Popen[bytes]") -> None:
    """Wait for its command line, which is empty until the kernel has finished starting its program."""
    wait_for(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes(), "the process has begun", every_s=0.01)


def test_a_number_that_another_process_has_now_is_no_sign_of_life() -> None:
    other = subprocess.Popen(["/bin/sleep", "300"])
    try:
        begins(other)
        assert resumed(run("RUNNING", pid=str(other.pid))) == ["AwaitingRetry"]
    finally:
        other.kill()
        other.wait()


def test_a_run_that_may_be_alive_is_left_alone(gone: str) -> None:
    named = subprocess.Popen(["/bin/sh", "-c", "sleep 300; : prefect.engine"], start_new_session=True)
    try:
        begins(named)
        for pid in (None, str(named.pid), "a-container"):
            assert resumed(run("RUNNING", pid=pid)) == []
        assert resumed(run("RUNNING", pid=gone), is_local=False) == [], "it may be on another machine"
    finally:
        os.killpg(named.pid, 9)
        named.wait()


@pytest.mark.parametrize(
    ("name", "starts", "age", "expected"),
    [
        (CRASHED, 1, 600, ["AwaitingRetry"]),
        (LOST, 1, 600, ["AwaitingRetry"]),
        (LOST, 1, 5, []),
        (CRASHED, 2, 600, []),
        (ABORTED, 1, 600, []),
    ],
)
def test_a_crash_that_no_automation_saw_is_resumed_once(name: str, starts: int, age: int, expected: list[str]) -> None:
    assert resumed(run("CRASHED", name, starts=starts, age=age)) == expected


@pytest.mark.parametrize(
    ("marked", "taken_back"),
    [
        (run("CRASHED", CRASHED, SECOND_REPORT, starts=2), True),
        (run("CRASHED", LOST), True),
        (run("CRASHED", CRASHED, "Execution was cancelled by the runtime environment."), False),
        (run("RUNNING"), False),
        (run("FAILED"), False),
    ],
)
def test_a_living_run_takes_back_what_was_said_of_an_earlier_process(marked: FlowRun, taken_back: bool) -> None:
    api = Api()
    assert take_back(api, marked) is taken_back  # type: ignore[arg-type]
    assert [state.name for state in api.set] == ["Running"] * taken_back
