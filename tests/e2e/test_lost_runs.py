"""Runs that are lost are resumed once, by automations that the server gets with the deployments."""

import pytest
from support.prefect import Prefect

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("prefect")]

LOSE = """
import json, sys, time
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
from flows.lost_runs import AUTOMATIONS, LOST, automate
with get_client(sync_client=True) as client:
    automate(client)
    names = [one.name for one in client.read_automations() if one.name.startswith("gage-eval:")]
    assert sorted(names) == sorted(one.name for one in AUTOMATIONS), names
    deployment = client.read_deployment_by_name("evaluate/evaluate")
    # No worker takes a run that is pending.
    run = client.create_flow_run_from_deployment(
        deployment.id, parameters={"config": "gone.yaml"}, state=State(type=StateType.PENDING)
    )
    states = []
    for _ in range(2):
        client.set_flow_run_state(run.id, State(type=StateType.RUNNING), force=True)
        client.set_flow_run_state(run.id, State(type=StateType.CRASHED, name=LOST), force=True)
        deadline = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < deadline and client.read_flow_run(run.id).state.name == LOST:
            time.sleep(0.2)
        states.append(client.read_flow_run(run.id).state.name)
        client.set_flow_run_state(run.id, State(type=StateType.PENDING), force=True)
    client.delete_flow_run(run.id)
print(json.dumps(states))
"""


def test_a_lost_run_is_resumed_once(prefect: Prefect) -> None:
    first, second = prefect.script(LOSE, "20")
    assert first != "Lost"
    assert second == "Lost"
