"""Runs that crash are resumed once, by automations that the server gets with the deployments."""

import json
from pathlib import Path

import pytest
from support.prefect import Prefect
from support.runs import gage

from gage_eval.liveness import LOST_AFTER_S

pytestmark = pytest.mark.server

# Brings runs to states of the type CRASHED. Prints their states some time after the first of them were resumed.
CRASH = """
import json, time
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
from flows.states import ABORTED, CRASHED, LOST
RUNNING, PENDING, CANCELLING = (State(type=getattr(StateType, name)) for name in ("RUNNING", "PENDING", "CANCELLING"))
PATHS = {
    "crashed": (CRASHED, RUNNING),
    "lost": (LOST, RUNNING),
    "crashed again": (CRASHED, RUNNING, PENDING, RUNNING),
    "aborted": (ABORTED, RUNNING),
    "cancelled": (LOST, RUNNING, CANCELLING),
}
with get_client(sync_client=True) as client:
    deployment = client.read_deployment_by_name("evaluate/evaluate")
    runs = {}
    for name, (end, *states) in PATHS.items():
        # No worker takes a run that is pending.
        run = client.create_flow_run_from_deployment(deployment.id, parameters={"config": "gone"}, state=PENDING)
        runs[name] = run.id
        for state in states:
            client.set_flow_run_state(run.id, state, force=True)
        client.set_flow_run_state(run.id, State(type=StateType.CRASHED, name=end))
    def state(name):
        return client.read_flow_run(runs[name]).state.name
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (state("crashed") == CRASHED or state("lost") == LOST):
        time.sleep(0.2)
    time.sleep(6)
    print(json.dumps({name: state(name) for name in runs}))
    for run in runs.values():
        client.delete_flow_run(run)
"""


def test_a_crashed_run_is_resumed_once_and_a_cancelled_one_never(prefect: Prefect) -> None:
    states = prefect.script(CRASH)
    assert states.pop("crashed") != "Crashed"
    assert states.pop("lost") != "Lost"
    assert states == {"crashed again": "Crashed", "aborted": "Aborted", "cancelled": "Cancelling"}


SWITCH = """
import json, sys
from prefect.client.orchestration import get_client
with get_client(sync_client=True) as client:
    automation, = client.read_automations_by_name("gage-eval: lost runs")
    if len(sys.argv) > 1:
        {"off": client.pause_automation, "on": client.resume_automation}[sys.argv[1]](automation.id)
print(json.dumps([automation.enabled, automation.trigger.within.total_seconds()]))
"""


def test_deploying_changes_the_time_of_an_automation_and_leaves_it_switched_off(
    prefect: Prefect, tmp_path: Path
) -> None:
    assert prefect.script(SWITCH, "off") == [True, LOST_AFTER_S]
    deploy = ("deploy", "--json", "--store", str(prefect.folder / ".gage"))
    done = json.loads(gage(tmp_path, *deploy, "--lost-after", "60", env=prefect.env).stdout)["deployments"]
    updated = {one["name"] for one in done if one["change"] == "updated"}
    assert updated == {"gage-eval: lost runs", "gage-eval: runs of lost nights"}
    assert prefect.script(SWITCH) == [False, 60]
    gage(tmp_path, *deploy, env=prefect.env)
    assert prefect.script(SWITCH, "on") == [False, LOST_AFTER_S]
