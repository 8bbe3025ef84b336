"""Suites from deployments, on a server with Postgres and workers of two pools: ``make test-e2e``."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import START_S, Cluster
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import write_config
from support.waiting import Stopwatch, wait_for

from gage_eval.local.deployments import all_deployments
from gage_eval.store import Store
from tools.chromium import chromium, program
from tools.prefect_ui import fill_field, log_in, open_form

pytestmark = pytest.mark.e2e

SEVEN = ("load", "standardize", "preprocess", "infer", "judge", "auto_eval", "report")
COMPUTED, CACHED = ("COMPLETED", "Completed"), ("COMPLETED", "Cached")
ROWS = 16
IN_FLIGHT = 16
# A run ends so soon after it was cancelled, or after its process was killed.
ENDS_WITHIN_S = 15.0


@pytest.fixture
def gsm8k(shared: Path) -> Path:
    """The folder of the suite's data."""
    folder = shared / "data"
    if not (folder / "gsm8k").is_dir():
        pytest.skip("needs the data of gsm8k (../shared/data)")
    return folder


@pytest.fixture
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint(latency_ms=20) as running:
        yield running


@pytest.fixture
def slow_endpoint() -> Iterator[MockEndpoint]:
    """About forty answers a second."""
    with mock_endpoint(latency_ms=400, accuracy=0.7) as running:
        yield running


def suite_form(endpoint: MockEndpoint, data: Path, rows: int = ROWS) -> dict[str, Any]:
    """What the form of the suite sends."""
    return {
        "model": {"name": "mock", "endpoint": endpoint.url},
        "data": {"samples": rows, "folder": str(data)},
    }


def evaluate_form(config: Path) -> dict[str, Any]:
    return {"config": str(config)}


def completed(cluster: Cluster, run_id: str) -> dict[str, Any]:
    run = cluster.finished(run_id)
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    return run


def record_of(cluster: Cluster, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((cluster.store / "runs" / name / "run.json").read_text())
    return record


def test_the_deployments_are_the_suites_and_the_named_others(cluster: Cluster) -> None:
    suites = {suite["name"] for suite in json.loads(cluster.gage("list", "suites", "--json").stdout)}
    there = cluster.api("POST", "/deployments/filter", {"limit": 200})
    wanted_ones = all_deployments(["h100"])

    assert {deployment["name"] for deployment in there if "suite" in deployment["tags"]} == suites
    assert {deployment["name"] for deployment in there} == {deployment.name for deployment in wanted_ones}
    for deployment in there:
        wanted = next(wanted for wanted in wanted_ones if wanted.name == deployment["name"])
        assert deployment["work_pool_name"] == (wanted.pool or "local")

    again = json.loads(
        cluster.gage("deploy", "--json", "--pool", "local", "--gpu-pool", "h100", "--store", str(cluster.store)).stdout
    )
    assert {deployment["change"] for deployment in again["deployments"]} == {"unchanged"}


def test_a_suite_from_its_form_is_computed_once_and_then_cached(
    cluster: Cluster, gsm8k: Path, endpoint: MockEndpoint
) -> None:
    begin = cluster.log_size()
    first = completed(cluster, cluster.submit("suite/gsm8k", suite_form(endpoint, gsm8k), "first"))
    assert first["work_pool_name"] == "local"
    states = cluster.states(first["id"])
    # The worked examples have a load and a standardize of their own.
    assert {name for name in states if name.endswith(" gsm8k")} == {f"{stage} gsm8k" for stage in SEVEN}
    assert set(states.values()) == {COMPUTED}
    assert endpoint.stats()["requests"] == ROWS
    stages = record_of(cluster, "first")["stages"]
    responses = next(entry["outputs"]["responses"] for stage, entry in stages.items() if stage.endswith("/infer"))
    assert Store.open(str(cluster.store), read_only=True).artifact(responses).table().num_rows == ROWS
    assert list((cluster.store / "artifacts" / responses).glob("*.parquet"))

    second = completed(cluster, cluster.submit("suite/gsm8k", suite_form(endpoint, gsm8k), "second"))
    assert set(cluster.states(second["id"]).values()) == {CACHED}
    assert endpoint.stats()["requests"] == ROWS
    assert cluster.errors(begin) == []


def test_a_newcomer_runs_a_suite_with_the_browser(cluster: Cluster, gsm8k: Path, endpoint: MockEndpoint) -> None:
    if program() is None:
        pytest.skip("needs Chromium (Debian: chromium)")
    ui = cluster.api_url.removesuffix("/api")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1400})
        page.set_default_timeout(120_000)
        assert cluster.login is not None
        log_in(page, ui, cluster.login)
        open_form(page, ui, "gsm8k")
        fill_field(page, "Run Name", "by-hand")
        fill_field(page, "Name (Optional)", "mock")
        fill_field(page, "Endpoint (Optional)", endpoint.url)
        fill_field(page, "Folder (Optional)", str(gsm8k))
        fill_field(page, "Samples (Optional)", str(ROWS))
        page.get_by_role("button", name="Submit").click()
        run = wait_for(lambda: newest_of(cluster, "gsm8k", "by-hand"), "the run appears")
        done = completed(cluster, run["id"])
        page.goto(f"{ui}/runs/flow-run/{done['id']}")
        score = done["state"]["message"].partition(" · ")[0]
        page.get_by_text(score).first.wait_for()

    assert endpoint.stats()["requests"] == ROWS
    assert score.startswith("gsm8k,")


def newest_of(cluster: Cluster, deployment: str, name: str) -> dict[str, Any] | None:
    """The newest run of that name of a deployment."""
    query = {"deployments": {"name": {"any_": [deployment]}}, "flow_runs": {"name": {"any_": [name]}}, "limit": 1}
    runs: list[dict[str, Any]] = cluster.api("POST", "/flow_runs/filter", query)
    return next(iter(runs), None)


def test_a_cancelled_run_ends_soon_and_a_retry_asks_only_for_the_rest(
    cluster: Cluster, tmp_path: Path, slow_endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, slow_endpoint.url, rows=600, backend={"max_concurrency": IN_FLIGHT})
    run_id = cluster.submit("evaluate/evaluate", evaluate_form(config), "cancelled")
    wait_for(lambda: slow_endpoint.stats()["requests"] > 60, "some rows are asked")

    cluster.cancel(run_id)
    with Stopwatch() as watch:
        run = cluster.finished(run_id)
    assert run["state_type"] == "CANCELLED"
    assert watch.seconds < ENDS_WITHIN_S
    requests = slow_endpoint.stats()["requests"]
    assert requests < 600

    again = cluster.retry(run_id)
    assert again["state_type"] == "COMPLETED", again["state"]["message"]
    assert slow_endpoint.stats()["distinct_answered"] == 600
    assert slow_endpoint.stats()["requests"] - 600 <= IN_FLIGHT


def test_a_killed_run_is_resumed_once_and_its_retry_loses_nothing(
    cluster: Cluster, tmp_path: Path, slow_endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, slow_endpoint.url, rows=600, backend={"max_concurrency": IN_FLIGHT})
    run_id = cluster.submit("evaluate/evaluate", evaluate_form(config), "killed")
    for times in (1, 2):
        wait_for(lambda times=times: slow_endpoint.stats()["requests"] > times * 60, "some rows are asked")
        assert cluster.flow_run(run_id)["run_count"] == times, "a killed run is resumed by itself"
        os.kill(record_of(cluster, "killed")["process"]["pid"], signal.SIGKILL)
    with Stopwatch() as watch:
        assert cluster.finished(run_id)["state_type"] == "CRASHED"
    assert watch.seconds < ENDS_WITHIN_S
    # Longer than a first crash waits for its resume.
    time.sleep(20)
    assert cluster.flow_run(run_id)["state_type"] == "CRASHED"

    again = cluster.retry(run_id)
    assert again["run_count"] == 3, "it was resumed only once"
    assert again["state_type"] == "COMPLETED", again["state"]["message"]
    assert slow_endpoint.stats()["distinct_answered"] == 600
    assert slow_endpoint.stats()["requests"] - 600 <= 2 * IN_FLIGHT


@pytest.mark.slow
def test_a_run_of_a_lost_node_is_resumed_by_the_worker_of_another_pool(
    cluster: Cluster, tmp_path: Path, slow_endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, slow_endpoint.url, rows=600, backend={"max_concurrency": IN_FLIGHT})
    on_h100 = cluster.deploy_on("h100", "evaluate/evaluate")
    lost = cluster.submit(on_h100, evaluate_form(config), "lost")
    wait_for(lambda: slow_endpoint.stats()["requests"] > 60, "some rows are asked")
    cluster.workers["h100"].kill_all()
    cluster.workers["h100"].start()
    requests = slow_endpoint.stats()["requests"]

    # Otherwise it would be resumed by itself later (`test_recovery`).
    cluster.cancel(lost)
    again = {"config": str(config), "run": {"resume": "lost"}}
    assert slow_endpoint.stats()["requests"] == requests, "nothing of the node is left that asks"
    done = completed(cluster, cluster.submit("evaluate/evaluate", again))
    assert done["work_pool_name"] == "local"
    assert slow_endpoint.stats()["distinct_answered"] == 600
    assert slow_endpoint.stats()["requests"] - 600 <= IN_FLIGHT
    wait_for(lambda: cluster.online_workers("h100"), "the worker is back", START_S)


@pytest.mark.slow
def test_two_workers_with_one_key_compute_it_once(
    cluster: Cluster, tmp_path: Path, slow_endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, slow_endpoint.url, rows=100, backend={"max_concurrency": IN_FLIGHT})
    deployments = ("evaluate/evaluate", cluster.deploy_on("h100", "evaluate/evaluate"))
    ids = [
        cluster.submit(deployment, evaluate_form(config), f"twin-{number}")
        for number, deployment in enumerate(deployments)
    ]
    pools = {completed(cluster, run_id)["work_pool_name"] for run_id in ids}

    assert pools == {"local", "h100"}
    assert slow_endpoint.stats()["requests"] == 100


@pytest.mark.slow
def test_twenty_runs_eight_at_a_time_leave_no_error_in_the_servers_log(
    cluster: Cluster, gsm8k: Path, endpoint: MockEndpoint
) -> None:
    cluster.api("PATCH", "/work_pools/local", {"concurrency_limit": 8})
    begin = cluster.log_size()
    names = [f"crowd-{number}" for number in range(20)]
    ids = [
        cluster.submit("suite/gsm8k", suite_form(endpoint, gsm8k, 20 + number), name)
        for number, name in enumerate(names)
    ]
    most = 0
    while set(states := cluster.states_of(ids)) - {"COMPLETED"}:
        assert not set(states) & {"FAILED", "CRASHED", "CANCELLED"}, states
        most = max(most, states.count("RUNNING") + states.count("PENDING"))
        cluster.server.check()
        time.sleep(1.0)
    cluster.api("PATCH", "/work_pools/local", {"concurrency_limit": None})

    # Not 8: Prefect counts a run from the moment when its worker has marked it, and a slow worker takes more before.
    assert 2 <= most < len(names)
    assert cluster.errors(begin) == []


def test_a_run_goes_on_while_server_and_database_restart(
    cluster: Cluster, tmp_path: Path, slow_endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, slow_endpoint.url, rows=600, backend={"max_concurrency": IN_FLIGHT})
    run_id = cluster.submit("evaluate/evaluate", evaluate_form(config), "restarted")
    wait_for(lambda: slow_endpoint.stats()["requests"] > 60, "some rows are asked")
    for service in (cluster.server, cluster.database):
        service.stop()
    for service in (cluster.database, cluster.server):
        service.start()
    wait_for(cluster.is_healthy, "the server is back")

    completed(cluster, run_id)
    assert slow_endpoint.stats()["requests"] == 600
