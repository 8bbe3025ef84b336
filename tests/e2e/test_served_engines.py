"""Engines on a work pool: a flow run there serves them, and a whole run can be carried out there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cluster import Cluster
from support.engines import asked, ends, options_on_engine, starts, write_fake_vllm
from support.runs import gage
from support.waiting import PATIENCE_S, Stopwatch, wait_for
from support.workspace import write_rows

pytestmark = pytest.mark.e2e
ROWS = 60
# Servers and engines end so soon after their last run.
ENDS_WITHIN_S = 60.0
# Exit code of a command that was cancelled.
INTERRUPTED = 130
Config = Callable[..., Path]


@pytest.fixture(scope="module")
def deployed(cluster: Cluster) -> str:
    """The deployment for any config, on the pool `local`; `serve-h100` and `evaluate-h100` are on the pool `h100`."""
    deploy(cluster, "h100")
    return "evaluate/evaluate"


def deploy(cluster: Cluster, *gpu_pools: str) -> None:
    """Bring the deployments to the cluster."""
    arguments = ["--pool", "local", "--store", str(cluster.store)]
    for pool in gpu_pools:
        arguments += ["--gpu-pool", pool]
    cluster.gage("deploy", *arguments)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes configs of three tasks whose engine is `fake_vllm`. None reuses answers of another one."""
    write_fake_vllm(tmp_path)
    write_rows(tmp_path, ROWS)

    def written(name: str, **engine: Any) -> Path:
        file = Path(options_on_engine(tmp_path, name, tasks=3, max_concurrency=4, freshness=name, **engine).config)
        content = yaml.safe_load(file.read_text())
        content["role_adapters"][0]["resource_requirement"] = {"work_pool": "h100"}
        file.write_text(yaml.safe_dump(content))
        return file

    return written


def servers(cluster: Cluster) -> list[dict[str, Any]]:
    """The flow runs of servers, newest first."""
    body = {"flows": {"name": {"any_": ["serve"]}}, "sort": "EXPECTED_START_TIME_DESC"}
    runs: list[dict[str, Any]] = cluster.api("POST", "/flow_runs/filter", body)
    return runs


def new_process(cluster: Cluster, before: int) -> int:
    """The process of the one server that has come to those that were there before."""
    wait_for(lambda: len(servers(cluster)) > before, "a server")
    (server,) = servers(cluster)[: len(servers(cluster)) - before]
    pid = wait_for(lambda: cluster.api("GET", f"/flow_runs/{server['id']}")["infrastructure_pid"], "its process")
    return int(str(pid).rpartition(":")[2])


def test_a_flow_run_serves_all_tasks_and_ends_with_its_last_run(
    cluster: Cluster, deployed: str, config: Config, tmp_path: Path
) -> None:
    before = len(servers(cluster))
    run = cluster.finished(cluster.submit(deployed, {"config": str(config("all"))}))
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert run["work_pool_name"] == "local"
    (server,) = servers(cluster)[: len(servers(cluster)) - before]
    assert server["work_pool_name"] == "h100"
    assert len(starts(tmp_path)) == 1
    assert len(asked(tmp_path)) == 3 * ROWS
    with Stopwatch() as watch:
        ended = cluster.finished(server["id"])
    assert watch.seconds <= ENDS_WITHIN_S
    assert (ended["state_type"], ended["state"]["message"]) == ("COMPLETED", "no run needs it any more")


def test_an_engine_starts_once_for_all_runs_of_a_matrix(
    cluster: Cluster, deployed: str, config: Config, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        config(name)
    asked_for = {"name": "pair", "rows": [{"config": "one.yaml"}, {"config": "two.yaml"}], "models": [{"name": "s"}]}
    (tmp_path / "pair.yaml").write_text(yaml.safe_dump(asked_for))
    gage(tmp_path, "matrix", "pair.yaml", "--store", str(cluster.store), env=cluster.env)
    assert len(starts(tmp_path)) == 1


def test_a_cancel_of_the_run_lets_its_engine_go(
    cluster: Cluster, deployed: str, config: Config, tmp_path: Path
) -> None:
    arguments = ["--prefect", "--store", str(cluster.store), "--run-id", "cancelled-here"]
    file = config("cancelled", env={"FAKE_SECONDS": "1"})
    process = subprocess.Popen(
        [sys.executable, "-m", "gage_eval", "run", str(file), *arguments], cwd=tmp_path, env=cluster.env
    )
    try:
        engine = wait_for(partial(asked, tmp_path), "a request")[0][0]
        cluster.cancel(cluster.flow_run("cancelled-here")["id"])
        assert process.wait(PATIENCE_S) == INTERRUPTED
    finally:
        process.kill()
    with Stopwatch() as watch:
        assert ends(engine)
    assert watch.seconds <= ENDS_WITHIN_S


def test_a_killed_server_is_replaced(cluster: Cluster, deployed: str, config: Config, tmp_path: Path) -> None:
    before = len(servers(cluster))
    run_id = cluster.submit(deployed, {"config": str(config("killed", env={"FAKE_SECONDS": "0.4"}))})
    pid = new_process(cluster, before)
    wait_for(lambda: len(asked(tmp_path)) > ROWS // 2, "some answers")
    os.kill(pid, signal.SIGKILL)
    run = cluster.finished(run_id)
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert len(starts(tmp_path)) == 2
    assert len(asked(tmp_path)) <= 3 * ROWS + 4


def test_the_engines_own_error_reaches_the_user(cluster: Cluster, deployed: str, config: Config) -> None:
    file = config("dies", env={"FAKE_DIES": "no kernel image"})
    run = cluster.finished(cluster.submit(deployed, {"config": str(file)}))
    assert run["state_type"] == "FAILED"
    assert "no kernel image" in run["state"]["message"]


def test_a_pool_without_a_worker_gets_a_sentence_within_30_s(cluster: Cluster, deployed: str, config: Config) -> None:
    cluster.api("POST", "/work_pools/", {"name": "empty", "type": "process", "base_job_template": {}})
    # The form proposes the pool of the deployments, which counts before the config's.
    asked_for = {"config": str(config("nobody")), "model": {"work_pool": "empty"}}
    run = cluster.finished(cluster.submit(deployed, asked_for))
    assert "no deployment of the flow 'serve' on work pool 'empty'" in run["state"]["message"]

    deploy(cluster, "h100", "empty")
    try:
        run_id = cluster.submit(deployed, asked_for)
        wait_for(lambda: [run["work_pool_name"] for run in servers(cluster)[:1]] == ["empty"], "the server waits")
        with Stopwatch() as watch:
            wait_for(
                lambda: [line for line in cluster.log(run_id) if "work pool 'empty' has no worker online" in line],
                "the sentence",
            )
        assert watch.seconds <= 30
        cluster.cancel(run_id)
        assert cluster.finished(run_id)["state_type"] == "CANCELLED"
        wait_for(lambda: servers(cluster)[0]["state_type"] == "CANCELLED", "the waiting server is cancelled")
    finally:
        for name in ("serve/serve-empty", "evaluate/evaluate-empty"):
            cluster.api("DELETE", f"/deployments/{cluster.deployment(name)['id']}")


def test_a_whole_run_is_carried_out_on_the_pool_with_its_engine_beside_it(
    cluster: Cluster, deployed: str, config: Config, tmp_path: Path
) -> None:
    before = len(servers(cluster))
    file = config("whole")
    content = yaml.safe_load(file.read_text())
    del content["role_adapters"][0]["resource_requirement"]
    file.write_text(yaml.safe_dump(content))
    gage(
        tmp_path,
        *("run", str(file), "--submit", "--work-pool", "h100", "--run-id", "whole-there"),
        *("--store", str(cluster.store)),
        env=cluster.env,
    )
    run = cluster.finished(cluster.flow_run("whole-there")["id"])
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert run["work_pool_name"] == "h100"
    assert len(servers(cluster)) == before, "the run starts its engine itself"
    assert len(starts(tmp_path)) == 1


@pytest.mark.slow
def test_a_flow_run_of_the_pool_runs_the_programs_of_a_run_and_a_killed_one_is_replaced(
    cluster: Cluster, deployed: str, tmp_path: Path
) -> None:
    before = len(servers(cluster))
    code = "import time; time.sleep(0.5)\ndef f(a): return a + 0 * {row}"
    rows = [{"id": f"s{row}", "question": "Write f.", "metadata": {"tests": ["assert f(1) == 1"]}} for row in range(40)]
    said = [{"id": f"s{row}", "output": code.format(row=row)} for row in range(40)]
    for name, records in (("data", rows), ("answers", said)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    config = {
        "datasets": [{"dataset_id": "mine", "params": {"path": "data.jsonl"}}],
        "backends": [
            {"backend_id": "r", "type": "replay", "config": {"path": "answers.jsonl", "answer_field": "output"}}
        ],
        "metrics": ["execution_passed"],
        "tasks": [
            {
                "task_id": "code",
                "dataset_id": "mine",
                "execution": {"mode": "script", "tests": "metadata.tests", "work_pool": "h100", "slots": 2},
            }
        ],
    }
    (tmp_path / "code.yaml").write_text(yaml.safe_dump(config))
    run_id = cluster.submit(deployed, {"config": str(tmp_path / "code.yaml")})
    pid = new_process(cluster, before)

    def has_run_a_program() -> bool:
        with suppress(FileNotFoundError):  # the log of a stage that has ended
            return any(b"peak_mb" in log.read_bytes() for log in (cluster.store / "wip").glob("*/log/*.log"))
        return False

    wait_for(has_run_a_program, "a program has run")
    os.kill(pid, signal.SIGKILL)
    run = cluster.finished(run_id)
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert len(servers(cluster)) == before + 2
    assert servers(cluster)[0]["work_pool_name"] == "h100"
