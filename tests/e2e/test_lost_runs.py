"""Runs that crash are resumed once, by automations that the server gets with the deployments."""

import json
from pathlib import Path

import pytest
from support.prefect import Prefect
from support.runs import gage

from gage_eval.liveness import LOST_AFTER_S

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("prefect")]

# Runs of a worker crash, are resumed and crash again; others are aborted or cancelled. Prints both times the states.
CRASH = """
import json, sys, time
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
from flows.states import ABORTED, CRASHED, LOST
with get_client(sync_client=True) as client:
    deployment = client.read_deployment_by_name("evaluate/evaluate")
    # No worker takes a run that is pending.
    pending = State(type=StateType.PENDING)
    runs = {
        name: client.create_flow_run_from_deployment(deployment.id, parameters={"config": "gone"}, state=pending).id
        for name in (CRASHED, LOST, ABORTED, "Cancelled")
    }
    def states():
        return {name: client.read_flow_run(run).state.name for name, run in runs.items()}
    def crash():
        for name, run in runs.items():
            client.set_flow_run_state(run, State(type=StateType.RUNNING), force=True)
            if name == "Cancelled":
                client.set_flow_run_state(run, State(type=StateType.CANCELLING))
                name = LOST
            client.set_flow_run_state(run, State(type=StateType.CRASHED, name=name))
    crash()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(states()[name] == name for name in (CRASHED, LOST)):
        time.sleep(0.2)
    first = states()
    for run in runs.values():
        client.set_flow_run_state(run, pending, force=True)
    crash()
    time.sleep(3)
    second = states()
    for run in runs.values():
        client.delete_flow_run(run)
print(json.dumps([first, second]))
"""


def test_a_crashed_run_is_resumed_once_and_a_cancelled_one_never(prefect: Prefect) -> None:
    first, second = prefect.script(CRASH)
    assert first.pop("Crashed") != "Crashed"
    assert first.pop("Lost") != "Lost"
    assert first == {"Aborted": "Aborted", "Cancelled": "Cancelling"}
    assert second == {"Crashed": "Crashed", "Lost": "Lost", "Aborted": "Aborted", "Cancelled": "Cancelling"}


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
    assert {one["name"] for one in done if one["change"] == "updated"} == {"gage-eval: lost runs"}
    assert prefect.script(SWITCH) == [False, 60]
    gage(tmp_path, *deploy, env=prefect.env)
    assert prefect.script(SWITCH, "on") == [False, LOST_AFTER_S]
