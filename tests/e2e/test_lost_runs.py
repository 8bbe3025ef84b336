"""Runs that crash are resumed once, by automations that the server gets with the deployments."""

import json
from pathlib import Path

import pytest
from support.prefect import Prefect
from support.runs import gage

from gage_eval.base.liveness import LOST_AFTER_S
from gage_eval.local import server

pytestmark = pytest.mark.server

# Brings runs to states of the type CRASHED. Prints their states some time after the first of them were resumed.
CRASH = """
import json, time
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
from flows.lost_runs import take_back
from flows.states import ABORTED, CRASHED, LOST
RUNNING, PENDING, CANCELLING = (State(type=getattr(StateType, name)) for name in ("RUNNING", "PENDING", "CANCELLING"))
LOST_IN_OUTAGE = State(type=StateType.CRASHED, name=LOST)
PATHS = {
    "crashed": (CRASHED, RUNNING),
    "lost": (LOST, RUNNING),
    "crashed again": (CRASHED, RUNNING, PENDING, RUNNING),
    "crashed after an outage": (CRASHED, RUNNING, LOST_IN_OUTAGE),
    "aborted": (ABORTED, RUNNING),
    "cancelled": (LOST, RUNNING, CANCELLING),
}
RESUMED = ("crashed", "lost", "crashed after an outage")
with get_client(sync_client=True) as client:
    deployment = client.read_deployment_by_name("evaluate/evaluate")
    runs = {}
    for name, (_, *states) in PATHS.items():
        # No worker takes a run that is pending.
        run = client.create_flow_run_from_deployment(deployment.id, parameters={"config": "gone"}, state=PENDING)
        runs[name] = run.id
        for state in states:
            client.set_flow_run_state(run.id, state, force=True)
            take_back(client, client.read_flow_run(run.id))
    # The automation looks at what happens within ten seconds of a mark.
    time.sleep(12)
    for name, (end, *_) in PATHS.items():
        client.set_flow_run_state(runs[name], State(type=StateType.CRASHED, name=end))
    def states(name):
        return [state.name for state in client.read_flow_run_states(runs[name])]
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not all("AwaitingRetry" in states(name) for name in RESUMED):
        time.sleep(0.2)
    time.sleep(6)
    found = {name: states(name) for name in runs}
    print(json.dumps({name: "resumed" if "AwaitingRetry" in names else names[-1] for name, names in found.items()}))
    # The worker takes the resumed ones and finds no config. One that is deleted while it starts leaves an error.
    while time.monotonic() < deadline and not all("Failed" in states(name) for name in RESUMED):
        time.sleep(0.2)
    for run in runs.values():
        client.delete_flow_run(run)
"""


def test_a_crashed_run_is_resumed_once_and_a_cancelled_one_never(prefect: Prefect) -> None:
    states = prefect.script(CRASH)
    assert states == {
        "crashed": "resumed",
        "lost": "resumed",
        "crashed again": "Crashed",
        "crashed after an outage": "resumed",
        "aborted": "Aborted",
        "cancelled": "Cancelling",
    }


SWITCH = """
import json, sys
from prefect.client.orchestration import get_client
with get_client(sync_client=True) as client:
    automation, = client.read_automations_by_name("gage-eval: lost runs")
    if len(sys.argv) > 1:
        {"off": client.pause_automation, "on": client.resume_automation}[sys.argv[1]](automation.id)
print(json.dumps([automation.enabled, automation.trigger.within.total_seconds()]))
"""


@pytest.mark.slow
def test_deploying_changes_the_time_of_an_automation_and_leaves_it_switched_off(
    prefect: Prefect, tmp_path: Path
) -> None:
    assert prefect.script(SWITCH, "off") == [True, LOST_AFTER_S]
    deploy = ("deploy", "--json", "--store", str(prefect.folder / ".gage"))
    done = json.loads(gage(tmp_path, *deploy, "--lost-after", "90", env=prefect.env).stdout)["deployments"]
    updated = {deployment["name"] for deployment in done if deployment["change"] == "updated"}
    assert updated == {"gage-eval: lost runs", "gage-eval: runs of lost nights"}
    assert prefect.script(SWITCH) == [False, 90]
    gage(tmp_path, *deploy, env=prefect.env)
    assert prefect.script(SWITCH, "on") == [False, LOST_AFTER_S]


GONE = """
import json, sys
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
with get_client(sync_client=True) as client:
    if len(sys.argv) > 1:
        states = [state.name for state in client.read_flow_run_states(sys.argv[1])]
        print(json.dumps(states))
    else:
        deployment = client.read_deployment_by_name("evaluate/evaluate")
        pending = State(type=StateType.PENDING)
        run = client.create_flow_run_from_deployment(deployment.id, parameters={"config": "gone"}, state=pending)
        # No process has this number.
        client.update_flow_run(run.id, infrastructure_pid=str(2**22 + 1))
        client.set_flow_run_state(run.id, State(type=StateType.RUNNING), force=True)
        print(json.dumps(str(run.id)))
"""


def test_a_start_resumes_the_run_of_a_killed_machine_and_leaves_one_worker(prefect: Prefect) -> None:
    run = prefect.script(GONE)
    worker = server.WORKER.find(prefect.home)
    assert worker is not None
    assert f"Its worker is running (process {worker.pid})" in gage(prefect.folder, "server", "status").stdout
    assert "restart_on_error" not in Path(f"/proc/{worker.pid}/cmdline").read_text()
    assert "Worker already running" in gage(prefect.folder, "server", "start").stdout
    assert server.WORKER.find(prefect.home) == worker
    prefect.finished(run, runs=2)
    assert "AwaitingRetry" in prefect.script(GONE, run)
