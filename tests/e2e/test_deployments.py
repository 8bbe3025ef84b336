"""Runs from the UI: what `gage server start` leaves at the server, its forms, and what the page of a run shows."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest
from support.endpoint import MockEndpoint, mock_endpoint
from support.nights import two_models
from support.prefect import Prefect
from support.runs import gage, write_config
from support.waiting import PATIENCE_S, Stopwatch, wait_for

from gage_eval.base.ports import free_port
from gage_eval.local.deployments import AUTOMATION, all_deployments

pytestmark = pytest.mark.server

# A worker's run and its task runs end so soon after the button was pressed.
CANCELLED_WITHIN_S = 15.0
SUSPENDED_WITHIN_S = 10.0
# Requests of a run that are in flight at once.
IN_FLIGHT = 16


@pytest.fixture
def endpoint() -> Iterator[MockEndpoint]:
    """About twenty answers a second for eight requests in flight."""
    with mock_endpoint(latency_ms=400, accuracy=0.7) as running:
        yield running


def _form(config: Path, **cards: Any) -> dict[str, Any]:
    return {"config": str(config), "storage": {"store": str(config.parent / ".gage")}, **cards}


def _deploy(folder: Path, prefect: Prefect, *options: str) -> Any:
    return json.loads(gage(folder, "deploy", "--json", *options, env=prefect.env).stdout)


ADD_SCHEDULE = """
import json
from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule
with get_client(sync_client=True) as client:
    deployment = client.read_deployment_by_name("cache-gc/cache-gc")
    client.create_deployment_schedules(deployment.id, [(CronSchedule(cron="0 3 * * 0", timezone="UTC"), False)])
print(json.dumps("added"))
"""


def test_a_started_server_has_every_suite_and_deploying_again_keeps_what_the_ui_changed(
    prefect: Prefect, tmp_path: Path, repo_root: Path
) -> None:
    store = ("--store", str(prefect.folder / ".gage"))
    again = _deploy(tmp_path, prefect, *store)["deployments"]
    deployments = [deployment.name for deployment in all_deployments(())]
    assert [
        deployment["name"].partition("/")[2] for deployment in again if deployment["pool"] != AUTOMATION
    ] == deployments
    assert [deployment["name"] for deployment in again if deployment["pool"] == AUTOMATION] == [
        "gage-eval: lost runs",
        "gage-eval: runs of lost nights",
        "gage-eval: resume crashed runs",
    ]
    assert {deployment["change"] for deployment in again} == {"unchanged"}

    other = ("--store", "s3://other/store")
    planned = _deploy(tmp_path, prefect, *other, "--dry-run")["deployments"]
    assert {deployment["change"] for deployment in planned if deployment["name"].startswith("suite/")} == {"updated"}
    kept = prefect.deployment("suite/gsm8k")["parameters"]["storage"]
    assert kept == {"store": store[1]}, "a dry run changes nothing"

    prefect.api("POST", "/work_pools/", {"name": "engines", "type": "process", "base_job_template": {}})
    prefect.script(ADD_SCHEDULE)
    try:
        changed = _deploy(tmp_path, prefect, *other, "--gpu-pool", "engines")["deployments"]
        assert {"name": "cache-gc/cache-gc", "pool": "local", "change": "updated"} in changed
        (schedule,) = prefect.deployment("cache-gc/cache-gc")["schedules"]
        assert (schedule["schedule"]["cron"], schedule["active"]) == ("0 3 * * 0", False)
        assert _of_pool(prefect, "engines").keys() == {"serve-engines", "evaluate-engines", "warm-models-engines"}
        _prefect_deploy(prefect, tmp_path, repo_root, "cache-gc", "gsm8k", "evaluate")
        assert prefect.deployment("cache-gc/cache-gc")["parameters"]["storage"] == {"store": other[1]}
        for name in ("suite/gsm8k", "evaluate/evaluate"):
            parameters = prefect.deployment(name)["parameters"]
            assert parameters["storage"] == {"store": other[1]}
            assert parameters["model"] == {"work_pool": "engines"}
        with pytest.raises(HTTPError) as refused:
            prefect.submit("suite/gsm8k", {"suite": "gsm8k"})
        assert refused.value.code == 409, "a form of the file needs a model, too"
    finally:
        _deploy(tmp_path, prefect, *store)
        for id_ in _of_pool(prefect, "engines").values():
            prefect.api("DELETE", f"/deployments/{id_}")
        prefect.api("DELETE", "/work_pools/engines")


def _of_pool(prefect: Prefect, pool: str) -> dict[str, str]:
    """Ids of the deployments of a work pool by name."""
    there = prefect.api("POST", "/deployments/filter", {"work_pools": {"name": {"any_": [pool]}}})
    return {deployment["name"]: deployment["id"] for deployment in there}


def _prefect_deploy(prefect: Prefect, folder: Path, repo_root: Path, *names: str) -> None:
    """Deploy by Prefect's own command, as `deployments/prefect.yaml` says."""
    file = ("--prefect-file", str(repo_root / "deployments" / "prefect.yaml"))
    chosen = [argument for name in names for argument in ("--name", name)]
    command = (sys.executable, "-m", "prefect", "--no-prompt", "deploy", *file, *chosen)
    subprocess.run(command, env=prefect.env, cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
def test_gc_frees_the_files_of_a_nightly_deployment_that_was_deleted(prefect: Prefect, tmp_path: Path) -> None:
    (tmp_path / "nightly.yaml").write_text(two_models(tmp_path).model_dump_json(exclude_unset=True))
    store = prefect.folder / ".gage"
    _deploy(tmp_path, prefect, "--store", str(store), "--nightly", "nightly.yaml")

    def deleted(**changed: str) -> tuple[list[str], bool]:
        done = gage(tmp_path, "cache", "gc", "--json", "--store", str(store), env=prefect.env | changed)
        removed = json.loads(done.stdout)
        return removed["deleted_deployments"], removed["unknown"] is None

    assert deleted() == ([], True)
    prefect.api("DELETE", f"/deployments/{prefect.deployment('nightly/every-night')['id']}")
    assert deleted(PREFECT_API_URL=f"http://127.0.0.1:{free_port()}/api") == ([], False)
    assert deleted() == (["every-night"], True)
    assert deleted() == ([], True), "its record is gone"


def test_deploy_says_what_it_needs(prefect: Prefect, tmp_path: Path) -> None:
    store = ("--store", str(tmp_path))
    no_pool = gage(tmp_path, "deploy", "--pool", "h100s", *store, env=prefect.env, check=False)
    assert (no_pool.returncode, no_pool.stdout) == (2, "")
    assert "no work pool 'h100s'" in no_pool.stderr
    assert "prefect work-pool create h100s" in no_pool.stderr

    no_store = gage(tmp_path, "deploy", env=prefect.env, check=False)
    assert no_store.returncode == 2
    assert "give --store" in no_store.stderr


@pytest.mark.parametrize(
    "card",
    [
        {"data": {"samples": 0}},
        {"model": {"name": "m", "endpoint": "localhost:8000"}},
        {"model": {}},
        {"run": {"refresh": ["inferr"]}},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_before_anything_starts(prefect: Prefect, card: dict[str, Any]) -> None:
    with pytest.raises(HTTPError) as refused:
        prefect.submit("suite/gsm8k", {"suite": "gsm8k", "model": {"name": "m"}, **card})
    assert refused.value.code == 409


def test_the_page_of_a_run_from_the_form_tells_its_story(
    prefect: Prefect, tmp_path: Path, endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, endpoint.url, rows=400)
    own_store = {"store": str(prefect.folder / ".gage")}
    form = _form(config, run={"concurrency": 8}, storage=own_store)
    flow_run_id = prefect.submit("evaluate/evaluate", form, "from-form")

    moved: set[float] = set()
    while (run := prefect.flow_run(flow_run_id))["state"]["name"] not in ("Completed", "Failed"):
        shown = [artifact for artifact in prefect.artifacts(flow_run_id) if artifact["type"] == "progress"]
        moved |= {artifact["data"] for artifact in shown}
        assert all(" of 400" in artifact["description"] for artifact in shown)
        time.sleep(0.5)

    assert run["name"] == "from-form"
    assert run["state"]["message"].startswith("numeric_match 0.")
    assert run["state"]["message"].endswith(" · 400 samples")
    assert set(run["tags"]) == {"gage-eval", "mock", "sums"}
    assert len(moved) > 2, "the progress moved while infer ran"
    artifacts = {artifact["key"]: artifact["data"] for artifact in prefect.artifacts(flow_run_id)}
    assert artifacts.keys() == {"sums-infer", "sums-scores", "sums-viewer", "sums-report"}
    assert artifacts["sums-infer"] == 100
    (score,) = json.loads(artifacts["sums-scores"])
    assert (score["task"], score["metric"], score["n"]) == ("sums", "numeric_match", "400")
    report = artifacts["sums-report"]
    assert "| sums | numeric\\_match | 0." in report
    assert "file://" not in report
    assert "`gage view from-form --store " in report
    page = artifacts["sums-viewer"].partition("](")[2].rstrip(")")
    assert f"[Samples and answers]({page}), or " in report
    with pytest.raises(HTTPError) as refused:
        build_opener(ProxyHandler({})).open(page)
    assert (refused.value.code, 'name="token"' in refused.value.read().decode()) == (401, True)
    # Prefect sends log lines together, now and then, also after the flow run has ended.
    infer = "sums infer: 400 rows · "
    wait_for(lambda: any(line.startswith(infer) for line in prefect.log(flow_run_id)), "the log has arrived")
    lines = prefect.log(flow_run_id)
    assert lines[0] == "sums · 1 task · run from-form"
    assert not any("{" in line for line in lines), "log lines are words"


def test_cancel_in_the_ui_ends_a_run_of_the_worker(prefect: Prefect, tmp_path: Path, endpoint: MockEndpoint) -> None:
    config = write_config(tmp_path, endpoint.url, rows=600)
    flow_run_id = prefect.submit("evaluate/evaluate", _form(config), "cancelled-in-worker")
    wait_for(
        lambda: prefect.running_stages(flow_run_id) == ["infer sums"] and endpoint.stats()["requests"] >= 20,
        "infer is under way",
    )

    with Stopwatch() as watch:
        prefect.cancel(flow_run_id)
        assert prefect.finished(flow_run_id)["state_type"] == "CANCELLED"
    assert watch.seconds < CANCELLED_WITHIN_S
    # The worker may report the end of the flow run before the run's own process has reported its stages.
    cancelled = ("CANCELLED", "Cancelled")
    wait_for(lambda: prefect.states(flow_run_id)["infer sums"] == cancelled, "the stage is cancelled")
    record = tmp_path / ".gage" / "runs" / "cancelled-in-worker" / "run.json"
    wait_for(lambda: json.loads(record.read_text())["status"] == "interrupted", "the record says so")
    requests = endpoint.stats()["requests"]
    time.sleep(1.0)
    assert endpoint.stats()["requests"] == requests, "nothing is asked any more"


SUSPEND = """
from uuid import UUID
import sys
from prefect.flow_runs import suspend_flow_run
suspend_flow_run(flow_run_id=UUID(sys.argv[1]), timeout=3600)
print("{}")
"""


def test_suspend_stops_a_run_in_the_midst_of_infer_and_resume_goes_on(
    prefect: Prefect, tmp_path: Path, endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, endpoint.url, rows=600)
    flow_run_id = prefect.submit("evaluate/evaluate", _form(config), "suspended")
    wait_for(lambda: endpoint.stats()["requests"] >= 20, "infer is under way")

    # The script takes long to start on a busy machine; meanwhile nothing is answered, so that the run does not end.
    endpoint.process.send_signal(signal.SIGSTOP)
    try:
        prefect.script(SUSPEND, flow_run_id)
    finally:
        endpoint.process.send_signal(signal.SIGCONT)
    record = tmp_path / ".gage" / "runs" / "suspended" / "run.json"
    with Stopwatch() as watch:
        wait_for(lambda: json.loads(record.read_text())["status"] == "interrupted", "the run stops")
    assert watch.seconds < SUSPENDED_WITHIN_S
    assert endpoint.stats()["distinct_answered"] < 600
    assert prefect.flow_run(flow_run_id)["state"]["name"] == "Suspended"

    process = str(prefect.flow_run(flow_run_id)["infrastructure_pid"] or "").rpartition(":")[2]
    wait_for(lambda: not process or not Path("/proc", process).exists(), "the process of the run ends")
    assert prefect.api("POST", f"/flow_runs/{flow_run_id}/resume", {})["status"] == "ACCEPT"
    run = prefect.finished(flow_run_id)
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert endpoint.stats()["distinct_answered"] == 600
    assert endpoint.stats()["requests"] - 600 <= IN_FLIGHT


def test_a_worker_takes_the_retry_of_a_run_of_the_command_line(
    prefect: Prefect, tmp_path: Path, endpoint: MockEndpoint
) -> None:
    write_config(tmp_path, endpoint.url, rows=600)
    process = subprocess.Popen(
        [sys.executable, "-m", "gage_eval", "run", "sums.yaml", "--run-id", "from-shell"],
        cwd=tmp_path,
        env={**os.environ, **prefect.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: endpoint.stats()["requests"] >= 40, "some rows are asked", every_s=0.05)
    record = tmp_path / ".gage" / "runs" / "from-shell" / "run.json"
    flow_run_id = json.loads(record.read_text())["prefect"]["flow_run_id"]
    assert prefect.flow_run(flow_run_id)["deployment_id"], "without a deployment the UI offers neither Cancel nor Retry"

    prefect.cancel(flow_run_id)
    assert process.wait(PATIENCE_S) == 130
    run = prefect.retry(flow_run_id)

    message = run["state"]["message"]
    assert (run["name"], run["state_type"]) == ("from-shell", "COMPLETED"), message
    assert message.endswith(" · 600 samples")
    states = prefect.states(flow_run_id)
    assert {stage for stage, (_, name) in states.items() if name == "Cached"} == {
        "load sums", "standardize sums", "preprocess sums",
    }  # fmt: skip
    assert endpoint.stats()["distinct_answered"] == 600
    assert endpoint.stats()["requests"] <= 600 + 16, "answers of the cancelled run are kept"


def test_maintenance_of_the_store_runs_as_deployments(prefect: Prefect, tmp_path: Path) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=5)
        gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "kept")
    storage = {"storage": {"store": str(tmp_path / ".gage")}}
    sweep = prefect.submit("cache-gc/cache-gc", {"min_age": "0s", **storage})
    assert "1 run in" in prefect.finished(sweep)["state"]["message"]

    part = next((tmp_path / ".gage" / "artifacts").rglob("*.parquet"))
    part.chmod(0o644)
    part.write_bytes(b"damaged")
    check = prefect.submit("cache-verify/cache-verify", storage)
    ended = prefect.finished(check)
    assert ended["state"]["name"] == "Failed"
    assert "damaged" in ended["state"]["message"]
