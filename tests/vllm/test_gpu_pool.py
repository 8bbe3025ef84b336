"""The pool of the GPU machines with the real vLLM: a worker of the engines' environment serves the tasks of a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from real_engines import MODEL, PYTHON, VLLM
from support.cluster import Service
from support.prefect import ROOT, Prefect
from support.runs import gage, stage_outputs, write_sums

from gage_eval.base.ports import free_port
from gage_eval.local import server
from gage_eval.store import Store

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

POOL = "h100"
TASKS, ROWS = 3, 4


@pytest.fixture
def prefect(tmp_path: Path) -> Iterator[Prefect]:
    """A server whose pool `h100` has a worker of the environment of vLLM, which has another Prefect than the server."""
    folder = tmp_path / "server"
    folder.mkdir()
    port = free_port()
    gage(folder, "server", "start", "--no-worker", "--port", str(port))
    running = Prefect(folder, f"http://127.0.0.1:{port}/api", folder / server.HOME)
    try:
        template = json.loads((ROOT / "deployments" / "work_pools" / "process.json").read_text())
        running.api("POST", "/work_pools/", {"name": POOL, "type": "process", "base_job_template": template})
        gage(folder, "deploy", "--gpu-pool", POOL, "--store", str(tmp_path / ".gage"), env=running.env)
        (folder / "worker").mkdir()
        env = {**running.env, "PREFECT_HOME": str(folder / "worker"), "PREFECT_WORKER_QUERY_SECONDS": "2"}
        command = [str(PYTHON), "-m", "prefect", "worker", "start", "--pool", POOL]
        worker = Service("worker", command, folder / "worker", env)
        worker.start()
        try:
            yield running
        finally:
            worker.stop()
    finally:
        gage(folder, "server", "stop")


def write_config(folder: Path, name: str, backend: str, engine: dict[str, Any]) -> Path:
    """Three tasks for one model."""
    write_sums(folder / "sums.jsonl", ROWS)
    sampling = {"temperature": 0, "max_new_tokens": 4}
    config = {
        "metadata": {"name": "sums"},
        "datasets": [{"dataset_id": "sums", "params": {"path": "sums.jsonl"}}],
        "backends": [{"backend_id": "model", "type": backend, "config": engine}],
        "metrics": ["exact_match"],
        "tasks": [
            {"task_id": f"t{k}", "dataset_id": "sums", "sampling_params": {**sampling, "seed": k}} for k in range(TASKS)
        ],
    }
    path = folder / name
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def servers(prefect: Prefect) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = prefect.api("POST", "/flow_runs/filter", {"flows": {"name": {"any_": ["serve"]}}})
    return runs


def test_one_vllm_on_the_gpu_pool_serves_all_tasks_and_a_hit_starts_none(prefect: Prefect, tmp_path: Path) -> None:
    # The interpreter is that of the worker.
    engine = {"model_path": str(MODEL), "dtype": "float32", "max_model_len": 1024, **VLLM}
    write_config(tmp_path, "run.yaml", "vllm", engine)
    gage(tmp_path, "run", "run.yaml", "--work-pool", POOL, "--run-id", "first", env=prefect.env)

    (served,) = servers(prefect)
    assert served["work_pool_name"] == POOL
    ended = prefect.finished(served["id"])
    assert (ended["state_type"], ended["state"]["message"]) == ("COMPLETED", "no run needs it any more")
    store = Store.open(str(tmp_path / ".gage"))
    outputs = stage_outputs(tmp_path, "first")
    for task in range(TASKS):
        responses = store.artifact(outputs[f"t{task}/infer"]["responses"]).table()
        assert set(responses["status"].to_pylist()) <= {"ok", "truncated"}
        assert len(responses) == ROWS
    assert not list((tmp_path / ".gage" / "runs" / "first" / "engines").glob("*.log")), "the run opens no engine"

    gage(tmp_path, "run", "run.yaml", "--work-pool", POOL, "--run-id", "second", env=prefect.env)
    assert len(servers(prefect)) == 1
    assert stage_outputs(tmp_path, "second") == outputs

    # The worker's Prefect carries out a whole run, too.
    config = write_config(tmp_path, "whole.yaml", "dummy", {"mode": "fixed", "answer": "2"})
    whole = prefect.finished(prefect.submit(f"evaluate/evaluate-{POOL}", {"config": str(config)}, "whole"))
    assert whole["state_type"] == "COMPLETED", whole["state"]["message"]
    states = prefect.states("whole")
    assert {f"{stage} t{task}" for stage in ("load", "infer", "auto_eval") for task in range(TASKS)} <= set(states)
    assert {kind for kind, _ in states.values()} == {"COMPLETED"}
