"""The cluster of the end-to-end tests: a server on Postgres and workers of two pools run what the API asks for."""

from pathlib import Path

import pytest
from support.cluster import POOLS, Cluster, deploy_suite
from support.endpoint import mock_endpoint
from support.runs import write_config

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_the_worker_of_each_pool_carries_out_what_the_api_asks_for(cluster: Cluster, tmp_path: Path) -> None:
    with mock_endpoint(latency_ms=1) as endpoint:
        config = write_config(tmp_path, endpoint.url, rows=10)
        for pool, state in zip(POOLS, ("Completed", "Cached"), strict=True):
            deployment = deploy_suite(cluster, f"check-{pool}", pool)
            run = cluster.finished(cluster.trigger(deployment, {"config": str(config)}))

            assert run["state_type"] == "COMPLETED", run["state"]["message"]
            assert run["work_pool_name"] == pool
            assert set(cluster.task_states(run["id"]).values()) == {("COMPLETED", state)}
            assert (cluster.store / "runs" / run["name"] / "summary.json").is_file()
        assert endpoint.stats()["requests"] == 10
    assert cluster.errors() == []
