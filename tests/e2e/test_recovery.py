"""Runs recover by themselves: their worker is killed, or the whole node is lost, on real machinery."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import write_config
from support.waiting import Stopwatch, wait_for

from gage_eval.base.liveness import LEAST_LOST_AFTER_S
from gage_eval.base.processes import alive, born
from gage_eval.local.deployments import INNER_FLOW

pytestmark = pytest.mark.e2e

ROWS = 600
IN_FLIGHT = 16
# No process of a run goes on for longer when its worker was killed.
ORPHAN_S = 15.0
DEPLOY = ("--pool", "local", "--gpu-pool", "h100", "--store")


@pytest.fixture
def quick_to_notice(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with automations that do not wait for long."""
    deploy = ("deploy", *DEPLOY, str(cluster.store))
    cluster.gage(*deploy, "--lost-after", str(LEAST_LOST_AFTER_S))
    yield cluster
    cluster.gage(*deploy)


class Victim:
    """A run in the midst of inference, with an endpoint of its own."""

    def __init__(self, cluster: Cluster, folder: Path, deployment: str, name: str, endpoint: MockEndpoint) -> None:
        self.cluster = cluster
        self.endpoint = endpoint
        config = write_config(
            folder, endpoint.url, rows=ROWS, name=f"{name}.yaml", backend={"max_concurrency": IN_FLIGHT}
        )
        self.id = cluster.submit(deployment, {"config": str(config)}, name)
        wait_for(lambda: endpoint.stats()["requests"] > 60, "some rows are asked")
        record = json.loads((cluster.store / "runs" / name / "run.json").read_text())
        self.pid = int(record["process"]["pid"])

    def states(self) -> list[tuple[str, str]]:
        """(type, name) of all its states."""
        states = self.cluster.api("GET", f"/flow_run_states/?flow_run_id={self.id}")
        return [(state["type"], state["name"]) for state in sorted(states, key=lambda state: state["timestamp"])]

    def is_resumed(self) -> dict[str, Any]:
        """The flow run after it has been resumed and is complete; nothing was asked twice."""
        run = self.cluster.finished(self.id, runs=2)
        assert run["state_type"] == "COMPLETED", run["state"]["message"]
        assert run["run_count"] == 2
        assert self.endpoint.stats()["distinct_answered"] == ROWS
        assert self.endpoint.stats()["requests"] - ROWS <= IN_FLIGHT
        return run


def ends_of_cells(cluster: Cluster) -> list[str]:
    """Final states of the flow runs of the night's one run, the oldest first; empty while one has not ended."""
    where = {
        "flows": {"name": {"any_": [INNER_FLOW]}},
        "flow_runs": {"name": {"like_": "lost-night-"}},
        "sort": "START_TIME_ASC",
    }
    ends = [(run["state_type"], run["state_name"]) for run in cluster.api("POST", "/flow_runs/filter", where)]
    return [] if ("RUNNING", "Running") in ends else [name for _, name in ends]


def start_night(cluster: Cluster, folder: Path, endpoint: MockEndpoint) -> str:
    """Start a night of one run on the pool h100, and wait until some of its rows are asked. Returns its flow run."""
    config = write_config(
        folder, endpoint.url, rows=ROWS, name="night-sums.yaml", backend={"max_concurrency": IN_FLIGHT}
    )
    file = folder / "lost-night.yaml"
    file.write_text(
        f"name: lost-night\nschedule: {{cron: 0 2 1 1 *}}\nrows: [{{config: {config.name}}}]\nmodels: [{{name: it}}]\n"
    )
    cluster.gage("deploy", *DEPLOY, str(cluster.store), "--nightly", str(file), "--lost-after", str(LEAST_LOST_AFTER_S))
    night = cluster.submit(cluster.deploy_on("h100", "nightly/lost-night"), {})
    wait_for(lambda: endpoint.stats()["requests"] > 60, "some rows of the night are asked")
    return night


def test_runs_of_a_killed_worker_and_of_a_lost_node_are_resumed(quick_to_notice: Cluster, tmp_path: Path) -> None:
    cluster = quick_to_notice
    on_h100 = cluster.deploy_on("h100", "evaluate/evaluate")
    with (
        mock_endpoint(latency_ms=800) as first,
        mock_endpoint(latency_ms=800) as second,
        # The night is still under way when the other run has begun.
        mock_endpoint(latency_ms=1600) as third,
    ):
        night = start_night(cluster, tmp_path, third)
        lost = Victim(cluster, tmp_path, on_h100, "of-a-lost-node", first)
        cluster.workers["h100"].kill_all()
        cluster.workers["h100"].start()

        orphan = Victim(cluster, tmp_path, "evaluate/evaluate", "of-a-killed-worker", second)
        born_at = born(orphan.pid)
        cluster.workers["local"].kill()
        with Stopwatch() as watch:
            wait_for(lambda: not alive(orphan.pid, born_at), "the run's process ends")
        assert watch.seconds <= ORPHAN_S
        assert second.stats()["answered"] < ROWS, (cluster.log(orphan.id), orphan.states(), watch.seconds)
        with Stopwatch() as watch:
            wait_for(lambda: ("CRASHED", "Crashed") in orphan.states(), "the run reports its end")
        assert watch.seconds <= ORPHAN_S
        cluster.workers["local"].start()

        assert orphan.is_resumed()["work_pool_name"] == "local"
        assert lost.is_resumed()["work_pool_name"] == "h100"
        assert ("CRASHED", "Lost") in lost.states()

        assert cluster.finished(night, runs=2)["state"]["message"] == "1 unmeasured"
        assert third.stats()["distinct_answered"] == ROWS
        assert third.stats()["requests"] - ROWS <= IN_FLIGHT
        ends = wait_for(lambda: ends_of_cells(cluster), "no run of the night stays Running")
        assert ends == ["Aborted", "Completed"]
