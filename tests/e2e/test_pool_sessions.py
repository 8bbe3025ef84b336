"""Models on a work pool: shards are flow runs there, the run itself stays in its own pool and opens no engine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from sessions.shards import STOP_S, seconds_until_gone, signs
from support.cluster import Cluster
from support.endpoint import MockEndpoint, mock_endpoint
from support.engines import starts, write_fake_vllm
from support.runs import gage, write_config
from support.waiting import PATIENCE_S, Stopwatch, wait_for

from gage_eval.store import Store

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
ROWS = 300
SHARDS = 2
CONCURRENCY = 4
# Exit code of a command that was cancelled.
INTERRUPTED = 130


@pytest.fixture(scope="module")
def deployed(cluster: Cluster) -> str:
    """The deployment for any config, on the pool `local`; `generate-h100` is on the pool `h100`."""
    deploy(cluster, "h100")
    return "evaluate/evaluate"


def deploy(cluster: Cluster, *gpu_pools: str) -> None:
    """Bring the deployments to the cluster."""
    env = {"PREFECT_API_URL": cluster.api_url, "PREFECT_HOME": str(cluster.folder / "home")}
    arguments = ["--pool", "local", "--store", str(cluster.store)]
    for pool in gpu_pools:
        arguments += ["--gpu-pool", pool]
    gage(cluster.folder, "deploy", *arguments, env=env)


def config(folder: Path, endpoint: MockEndpoint, pool: str = "h100") -> Path:
    """A config of three tasks whose model is served by shards on a pool."""
    adapter = {
        "adapter_id": "dut",
        "role_type": "dut_model",
        "backend_id": "mock",
        "resource_requirement": {"work_pool": pool, "shards": SHARDS},
    }
    return write_config(
        folder,
        endpoint.url,
        rows=ROWS,
        backend={"max_concurrency": CONCURRENCY},
        role_adapters=[adapter],
        tasks=[{"task_id": f"t{k}", "dataset_id": "sums", "sampling_params": {"seed": k}} for k in range(3)],
    )


def shard_runs(cluster: Cluster) -> list[dict[str, Any]]:
    """The flow runs of shards, newest first."""
    body = {"flows": {"name": {"any_": ["generate"]}}, "sort": "EXPECTED_START_TIME_DESC"}
    found: list[dict[str, Any]] = cluster.api("POST", "/flow_runs/filter", body)
    return found


def both_serve(cluster: Cluster) -> Callable[[], list[dict[str, Any]]]:
    """The signs of life of the shards, once all of them serve."""

    def serving() -> list[dict[str, Any]]:
        found = [sign for sign in signs(Store.open(str(cluster.store))) if sign["state"] == "serving"]
        return found if len(found) == SHARDS else []

    return serving


def test_shards_serve_all_tasks_on_their_pool_and_a_hit_starts_none(
    cluster: Cluster, deployed: str, tmp_path: Path
) -> None:
    before = len(shard_runs(cluster))
    with mock_endpoint(latency_ms=5) as endpoint:
        parameters = {"config": str(config(tmp_path, endpoint))}
        run = cluster.finished(cluster.submit(deployed, parameters))
        assert run["state_type"] == "COMPLETED", run["state"]["message"]
        assert run["work_pool_name"] == "local"
        shards = shard_runs(cluster)[: len(shard_runs(cluster)) - before]
        assert [shard["work_pool_name"] for shard in shards] == ["h100"] * SHARDS, "once per shard for three tasks"
        wait_for(lambda: all(one["state_type"] == "COMPLETED" for one in shard_runs(cluster)[:SHARDS]), "shards end")
        assert all(shard["parent_task_run_id"] for shard in shards), "they are subflows of the run"
        assert endpoint.stats()["requests"] == 3 * ROWS
        assert {("COMPLETED", "Completed")} == {
            state for name, state in cluster.states(run["id"]).items() if name.startswith("infer")
        }
        again = cluster.finished(cluster.submit(deployed, parameters))
        assert {("COMPLETED", "Cached")} == set(cluster.states(again["id"]).values())
        assert endpoint.stats()["requests"] == 3 * ROWS
    assert len(shard_runs(cluster)) == before + SHARDS
    assert [item.path for item in Store.open(str(cluster.store)).objects.list("sessions")] == []


def test_the_shards_of_a_model_start_once_for_all_runs_of_a_matrix(
    cluster: Cluster, deployed: str, tmp_path: Path
) -> None:
    engine = write_fake_vllm(tmp_path)
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "engine"}
    for name in ("one", "two"):
        write_config(
            tmp_path,
            "",
            rows=20,
            metadata={"name": name},
            backends=[{"backend_id": "engine", "type": "vllm", "config": engine}],
            role_adapters=[{**adapter, "resource_requirement": {"work_pool": "h100"}}],
        ).rename(tmp_path / f"{name}.yaml")
    asked = {"name": "pair", "rows": [{"config": "one.yaml"}, {"config": "two.yaml"}], "models": [{"name": "small"}]}
    (tmp_path / "pair.yaml").write_text(yaml.safe_dump(asked))
    before = len(shard_runs(cluster))

    gage(tmp_path, "matrix", "pair.yaml", "--store", str(cluster.store), env=cluster.env)

    assert len(starts(tmp_path)) == 1
    assert len(shard_runs(cluster)) == before + 1
    wait_for(lambda: shard_runs(cluster)[0]["state_type"] == "COMPLETED", "the shard ends with the matrix")
    assert [item.path for item in Store.open(str(cluster.store)).objects.list("shards")] == []


def all_cancelled(cluster: Cluster, run: str) -> None:
    """The run and its shards end as cancelled, in the UI too."""

    def states() -> bool:
        found = [cluster.flow_run(run), *shard_runs(cluster)[:SHARDS]]
        return {one["state_type"] for one in found} == {"CANCELLED"}

    wait_for(states, "the run and its shards are cancelled")


def test_a_cancel_of_the_run_ends_the_shards_and_a_retry_asks_for_the_rest(
    cluster: Cluster, deployed: str, tmp_path: Path
) -> None:
    with mock_endpoint(latency_ms=100) as endpoint:
        run = cluster.submit(deployed, {"config": str(config(tmp_path, endpoint))})
        pids = [sign["pid"] for sign in wait_for(both_serve(cluster), "both shards serve")]
        with Stopwatch() as watch:
            cluster.cancel(run)
            seconds_until_gone(pids)
            all_cancelled(cluster, run)
        assert watch.seconds <= STOP_S
        assert endpoint.stats()["requests"] < 3 * ROWS

        again = cluster.retry(run)
        assert again["state_type"] == "COMPLETED", again["state"]["message"]
        names = [name for name in cluster.states(run) if name.startswith(("load", "standardize", "preprocess"))]
        assert {cluster.states(run)[name] for name in names} == {("COMPLETED", "Cached")}
        assert endpoint.stats()["requests"] - 3 * ROWS <= SHARDS * CONCURRENCY


def test_a_cancel_of_a_run_in_a_users_own_process_ends_its_shards(
    cluster: Cluster, deployed: str, tmp_path: Path
) -> None:
    arguments = ["--prefect", "--store", str(cluster.store), "--run-id", "of-a-user"]
    with mock_endpoint(latency_ms=500) as endpoint:
        process = subprocess.Popen(
            [sys.executable, "-m", "gage_eval", "run", str(config(tmp_path, endpoint)), *arguments],
            cwd=tmp_path,
            env=cluster.env,
        )
        try:
            pids = [sign["pid"] for sign in wait_for(both_serve(cluster), "both shards serve")]
            with Stopwatch() as watch:
                run = cluster.flow_run("of-a-user")["id"]
                cluster.cancel(run)
                assert process.wait(PATIENCE_S) == INTERRUPTED
                seconds_until_gone(pids)
                all_cancelled(cluster, run)
        finally:
            process.kill()
        assert watch.seconds <= STOP_S


def test_a_killed_shard_loses_what_it_had_in_flight(cluster: Cluster, deployed: str, tmp_path: Path) -> None:
    with mock_endpoint(latency_ms=100) as endpoint:
        run = cluster.submit(deployed, {"config": str(config(tmp_path, endpoint))})
        victim = wait_for(both_serve(cluster), "both shards serve")[0]["pid"]
        wait_for(lambda: endpoint.stats()["answered"] > ROWS // 2, "some answers")
        os.kill(victim, signal.SIGKILL)
        ended = cluster.finished(run)
        assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
        assert endpoint.stats()["distinct_answered"] == ROWS


def test_a_pool_without_a_worker_gets_a_sentence_within_30_s(cluster: Cluster, deployed: str, tmp_path: Path) -> None:
    cluster.api("POST", "/work_pools/", {"name": "empty", "type": "process", "base_job_template": {}})
    with mock_endpoint() as endpoint:
        file = config(tmp_path, endpoint, pool="empty")
        run = cluster.finished(cluster.submit(deployed, {"config": str(file)}))
        assert "no deployment of the flow 'generate' on work pool 'empty'" in run["state"]["message"]

        deploy(cluster, "h100", "empty")
        both = [cluster.deployment(f"generate/generate-{pool}") for pool in ("h100", "empty")]
        assert [one["work_pool_name"] for one in both] == ["h100", "empty"], "one for each pool"
        try:
            run_id = cluster.submit(deployed, {"config": str(file)})
            wait_for(lambda: cluster.flow_run(run_id)["state_type"] == "RUNNING", "the run starts")
            wait_for(lambda: [one["work_pool_name"] for one in shard_runs(cluster)[:1]] == ["empty"], "the shards wait")
            logs = {"logs": {"flow_run_id": {"any_": [run_id]}}}
            with Stopwatch() as watch:
                wait_for(
                    lambda: [
                        line
                        for line in cluster.api("POST", "/logs/filter", logs)
                        if "work pool 'empty' has no worker online" in line["message"]
                    ],
                    "the sentence",
                )
            assert watch.seconds <= 30
            cluster.cancel(run_id)
            assert cluster.finished(run_id)["state_type"] == "CANCELLED"
            wait_for(
                lambda: all(one["state_type"] == "CANCELLED" for one in shard_runs(cluster)[:SHARDS]),
                "the waiting shards are cancelled",
            )
        finally:
            cluster.api("DELETE", f"/deployments/{both[1]['id']}")
