"""A run on a worker notices that its worker is gone; one that was marked as lost is shown as running again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas import State
from prefect.client.schemas.objects import FlowRun, FlowRunPolicy
from prefect.events.actions import ChangeFlowRunState
from prefect.states import Cancelling, Completed, Crashed, Running, Scheduled

from flows.lost_runs import lost_run_automations, take_back
from flows.states import ABORTED, LOST
from tests.support.waiting import PATIENCE_S

# Watches as a flow does. It begins when the file "begin" is there.
RUN = """
import os, signal, sys, threading, time
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "pid").write_text(str(os.getpid()))
while not (folder / "begin").exists():
    time.sleep(0.01)
from flows import watch
watch._LOOK_EVERY_S = 0.05
def end(*_):
    (folder / "noticed").touch()
    os._exit(0)
class Over(threading.Event):
    def wait(self, seconds=None):
        with open(folder / "looks", "a") as file:
            file.write(".")
        return super().wait(seconds)
signal.signal(signal.SIGTERM, end)
watch._watch(os.getppid(), Over())
"""
# Starts the run as a worker does: with its output in a pipe.
WORKER = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
"""


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "what was waited for never came"
        time.sleep(0.01)


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@pytest.mark.parametrize("killed", ["before the flow", "in the flow"])
def test_a_run_notices_that_its_worker_was_killed(killed: str, tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, RUN, str(tmp_path)], stdout=subprocess.DEVNULL)
    until(lambda: size(tmp_path / "pid"))
    try:
        if killed == "before the flow":
            worker.kill()
            worker.wait()
        (tmp_path / "begin").touch()
        if killed == "in the flow":
            until(lambda: size(tmp_path / "looks") >= 5)
            assert not (tmp_path / "noticed").exists()
            worker.kill()
        until((tmp_path / "noticed").exists)
        assert (size(tmp_path / "looks") <= 1) == (killed == "before the flow")
    finally:
        worker.kill()
        worker.wait()
        with suppress(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


class Server:
    """A Prefect API with one flow run."""

    def __init__(self, state: State[Any]) -> None:
        self.run = FlowRun(flow_id=uuid4(), state=state, empirical_policy=FlowRunPolicy(retries=3))

    def update_flow_run(self, _: UUID, *, empirical_policy: FlowRunPolicy) -> None:
        self.run.empirical_policy = empirical_policy

    def set_flow_run_state(self, _: UUID, state: State[Any], *, force: bool) -> None:
        assert force
        self.run.state = state

    def take_back(self) -> bool:
        return take_back(self, self.run)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [LOST, ABORTED])
def test_a_living_run_that_was_marked_as_lost_runs_again(name: str) -> None:
    server = Server(Crashed(name=name))
    assert server.take_back()
    assert server.run.state is not None
    assert server.run.state.is_running()
    assert server.run.empirical_policy == FlowRunPolicy(retries=3, resuming=True), "it is not counted as another start"


def test_a_living_run_that_waits_for_its_resumption_runs_again() -> None:
    resume = lost_run_automations(120)["gage-eval: resume crashed runs"]
    assert resume is not None
    action = resume.actions[0]
    assert isinstance(action, ChangeFlowRunState)
    server = Server(Scheduled(name=action.name, message=action.message))
    assert server.take_back()
    assert server.run.state is not None
    assert server.run.state.is_running()


@pytest.mark.parametrize(
    "state",
    [Running(), Crashed(), Cancelling(), Completed(), Scheduled(name="AwaitingRetry", message="Retry from the UI")],
)
def test_other_states_stay_as_they_are(state: State[Any]) -> None:
    server = Server(state)
    assert not server.take_back()
    assert server.run.state is state
