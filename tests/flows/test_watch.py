"""A run on a worker notices that its worker is gone, and that its server was."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas import State
from prefect.client.schemas.objects import FlowRunPolicy
from prefect.events.actions import ChangeFlowRunState
from prefect.states import Cancelling, Completed, Crashed, Running, Scheduled

from flows.lost_runs import lost_run_automations
from flows.states import ABORTED, LOST
from flows.watch import Pulse
from tests.support.waiting import PATIENCE_S

# Watches as a flow does, with a stand-in for the heartbeats. It begins when the file "begin" is there.
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
class Pulse:
    def beat(self, client):
        with open(folder / "heartbeats", "a") as file:
            file.write(".")
signal.signal(signal.SIGTERM, end)
os.environ["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
watch._watch(os.getppid(), Pulse(), threading.Event())
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
            until(lambda: size(tmp_path / "heartbeats") >= 5)
            assert not (tmp_path / "noticed").exists()
            worker.kill()
        until((tmp_path / "noticed").exists)
        assert (size(tmp_path / "heartbeats") == 0) == (killed == "before the flow")
    finally:
        worker.kill()
        worker.wait()
        with suppress(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


class Server:
    """A Prefect API that may be away, and the state of one flow run there."""

    def __init__(self, state: State[Any]) -> None:
        self.away = False
        self.state = state
        self.heartbeats = 0
        self.policy: FlowRunPolicy | None = None

    def heartbeat(self, client: object) -> None:
        self.answer()
        self.heartbeats += 1

    def read_flow_run(self, _: UUID) -> SimpleNamespace:
        self.answer()
        return SimpleNamespace(state=self.state, empirical_policy=FlowRunPolicy(retries=3))

    def update_flow_run(self, _: UUID, *, empirical_policy: FlowRunPolicy) -> None:
        self.answer()
        self.policy = empirical_policy

    def set_flow_run_state(self, _: UUID, state: State[Any], *, force: bool) -> None:
        self.answer()
        assert force
        self.state = state

    def answer(self) -> None:
        if self.away:
            raise ConnectionError("away")


def lived_through(server: Server, marked: State[Any], *, outage: bool = True) -> None:
    """What a run does when its server is away for 40 seconds and marks it 3 seconds after its return."""
    clock = 0.0
    pulse = Pulse(uuid4(), server.heartbeat, lambda: clock)
    for second in range(60):
        clock = second
        server.away = outage and 5 <= second < 45
        if second == 48:
            server.state = marked
        pulse.beat(server)  # type: ignore[arg-type]
        if second == 46:
            assert server.heartbeats >= 2, "the first heartbeat comes as soon as the server is back"


@pytest.mark.parametrize("name", [LOST, ABORTED])
def test_a_living_run_that_was_marked_as_lost_runs_again(name: str) -> None:
    server = Server(Running())
    lived_through(server, Crashed(name=name))
    assert server.state.is_running()
    assert server.policy == FlowRunPolicy(retries=3, resuming=True), "it is not counted as another start"


def test_a_living_run_that_waits_for_its_resumption_runs_again() -> None:
    server = Server(Running())
    resume = lost_run_automations(30)["gage-eval: resume crashed runs"]
    assert resume is not None
    action = resume.actions[0]
    assert isinstance(action, ChangeFlowRunState)
    lived_through(server, Scheduled(name=action.name, message=action.message))
    assert server.state.is_running()


@pytest.mark.parametrize(
    "state", [Crashed(), Cancelling(), Completed(), Scheduled(name="AwaitingRetry", message="Retry from the UI")]
)
def test_other_states_stay_as_they_are(state: State[Any]) -> None:
    server = Server(Running())
    lived_through(server, state)
    assert server.state is state


def test_a_run_without_an_outage_asks_for_nothing_but_heartbeats() -> None:
    server = Server(Running())
    server.read_flow_run = None  # type: ignore[assignment,method-assign]
    lived_through(server, Running(), outage=False)
    assert server.heartbeats == 6
