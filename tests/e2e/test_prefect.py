"""The whole thing with a real Prefect server and worker, states read back through its API."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.endpoint import MockEndpoint, mock_endpoint
from support.prefect import Prefect
from support.runs import gage, score_ids, stage_outputs, summary, write_config

pytestmark = pytest.mark.server

SEVEN = ("load", "standardize", "preprocess", "infer", "judge", "auto_eval", "report")
CACHED = ("COMPLETED", "Cached")
COMPUTED = ("COMPLETED", "Completed")
CANARY = "canary-5f1d0c7ab2"


@pytest.fixture
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint(latency_ms=5, accuracy=0.7) as running:
        yield running


@pytest.fixture
def workplace(tmp_path: Path, prefect: Prefect) -> Path:
    """A folder with a store of its own whose runs go to the shared server."""
    return tmp_path


def _states(*names: tuple[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return {f"{stage} sums": state for stage, state in names}


def test_stages_complete_then_hit_and_a_changed_metric_reruns_only_scoring(
    prefect: Prefect, workplace: Path, endpoint: MockEndpoint
) -> None:
    config = write_config(workplace, endpoint.url, rows=60)
    env = prefect.env

    first = gage(workplace, "run", config.name, "--run-id", "e2e-first", env=env)
    # On a busy machine, a note that the server is slow may come first.
    lines = [line for line in first.stdout.splitlines() if not line.startswith("  note: ")]
    assert "prefect http://127.0.0.1:" in lines[0]
    assert prefect.states("e2e-first") == _states(*((stage, COMPUTED) for stage in SEVEN))

    gage(workplace, "run", config.name, "--run-id", "e2e-second", env=env)
    assert prefect.states("e2e-second") == _states(*((stage, CACHED) for stage in SEVEN))
    assert endpoint.stats()["requests"] == 60

    gage(workplace, "run", config.name, "--run-id", "e2e-third", "--set", "metrics=[numeric_match,contains]", env=env)
    scoring = ("auto_eval", "report")
    assert prefect.states("e2e-third") == _states(
        *((stage, COMPUTED if stage in scoring else CACHED) for stage in SEVEN)
    )
    assert endpoint.stats()["requests"] == 60
    assert set(score_ids(workplace, "e2e-first")) < set(score_ids(workplace, "e2e-third"))


def test_inline_and_prefect_runs_share_keys_and_artifacts(
    prefect: Prefect, workplace: Path, endpoint: MockEndpoint
) -> None:
    config = write_config(workplace, endpoint.url, rows=20)
    gage(workplace, "run", config.name, "--inline", "--run-id", "e2e-inline")

    gage(workplace, "run", config.name, "--run-id", "e2e-after-inline", env=prefect.env)

    assert prefect.states("e2e-after-inline") == _states(*((stage, CACHED) for stage in SEVEN))
    assert stage_outputs(workplace, "e2e-inline") == stage_outputs(workplace, "e2e-after-inline")


def test_a_worker_runs_the_deployment_and_a_retry_resumes_from_cached_stages(prefect: Prefect, workplace: Path) -> None:
    with mock_endpoint() as gone:
        url = gone.url
    port = url.split(":")[2].split("/")[0]
    quick = {"max_attempts": 2, "max_elapsed_s": 2.0}
    config = write_config(workplace, url, rows=30, backend=quick)
    parameters = {"config": str(config), "storage": {"store": str(workplace / ".gage")}}

    run = prefect.finished(prefect.submit("evaluate/evaluate", parameters, "e2e-worker"))

    assert (run["name"], run["state_type"]) == ("e2e-worker", "FAILED")
    assert "0 of 30 responses are kept" in run["state"]["message"]
    assert prefect.states("e2e-worker")["infer sums"][0] == "FAILED"
    assert prefect.results() == [], "a failed flow run leaves no pickled exception"

    with mock_endpoint(port=port) as back:
        again = prefect.retry(run["id"])
        assert (again["name"], again["state_type"]) == ("e2e-worker", "COMPLETED"), again["state"]["message"]
        assert back.stats()["requests"] == 30
    record = json.loads((workplace / ".gage" / "runs" / "e2e-worker" / "run.json").read_text())
    assert record["status"] == "completed"
    assert {stage for stage, entry in record["stages"].items() if entry["state"] == "cached"} == {
        "sums/load", "sums/standardize", "sums/preprocess",
    }  # fmt: skip


@pytest.mark.slow
def test_a_refreshed_inference_never_meets_stale_scores(prefect: Prefect, workplace: Path) -> None:
    with mock_endpoint(accuracy=1.0) as right:
        config = write_config(workplace, right.url, rows=40)
        gage(workplace, "run", config.name, "--run-id", "e2e-right", env=prefect.env)
    with mock_endpoint(accuracy=0.0, port=right.root.rsplit(":", 1)[1]) as wrong:
        gage(workplace, "run", config.name, "--run-id", "e2e-wrong", "--refresh", "infer", env=prefect.env)
        assert wrong.stats()["requests"] == 40

    assert summary(workplace, "e2e-right")["metrics"][0]["raw_values"] == {"score": 1.0}
    assert summary(workplace, "e2e-wrong")["metrics"][0]["raw_values"] == {"score": 0.0}
    states = prefect.states("e2e-wrong")
    assert states["infer sums"] == states["auto_eval sums"] == COMPUTED
    gage(workplace, "run", config.name, "--run-id", "e2e-after", env=prefect.env)
    assert summary(workplace, "e2e-after")["metrics"][0]["raw_values"] == {"score": 0.0}


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_runs_resume_with_nothing_lost_and_little_sent_again(
    prefect: Prefect, workplace: Path, kills: int
) -> None:
    rows, in_flight = 400, 16
    chance = random.Random(20)
    with mock_endpoint(latency_ms=400, accuracy=0.7) as endpoint:
        config = write_config(workplace, endpoint.url, rows=rows)
        command = [sys.executable, "-m", "gage_eval"]
        arguments = ["run", config.name, "--run-id", "e2e-killed", "--prefect"]
        killed = 0
        for moment in range(kills):
            endpoint.phase(f"life-{moment}")
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=workplace,
                env={**os.environ, **prefect.env},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            target = endpoint.stats()["requests"] + chance.randint(1, rows // (kills + 2))
            while process.poll() is None and endpoint.stats()["requests"] < target:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += process.returncode == -signal.SIGKILL
            if (workplace / ".gage" / "runs" / "e2e-killed" / "run.json").exists():
                arguments = ["resume", "e2e-killed", "--prefect"]
        endpoint.phase("last")
        gage(workplace, *arguments, env=prefect.env)
        stats = endpoint.stats()
    assert killed == kills
    assert stats["distinct_answered"] == rows
    assert stats["requests"] - rows <= kills * in_flight

    with mock_endpoint(accuracy=0.7, port=endpoint.root.rsplit(":", 1)[1]):
        gage(workplace, "run", config.name, "--inline", "--store", "undisturbed", "--run-id", "e2e-killed")
    (workplace / "undisturbed" / ".gage").symlink_to(workplace / "undisturbed")
    assert stage_outputs(workplace, "e2e-killed") == stage_outputs(workplace / "undisturbed", "e2e-killed")


def test_no_key_reaches_prefects_database_logs_or_the_store(prefect: Prefect, workplace: Path) -> None:
    with mock_endpoint(api_key=CANARY) as endpoint:
        config = write_config(workplace, endpoint.url, rows=10, backend={"api_key": "env:CANARY_KEY"})
        env = {**prefect.env, "CANARY_KEY": CANARY}
        done = gage(workplace, "run", config.name, "--run-id", "e2e-canary", env=env)

    assert CANARY not in done.stdout + done.stderr
    for root in (workplace, prefect.home, prefect.folder):
        for file in root.rglob("*"):
            if file.is_file():
                assert CANARY.encode() not in file.read_bytes(), f"the key is in {file.relative_to(root)}"


def test_a_configured_api_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1", rows=2)

    done = gage(tmp_path, "run", config.name, env={"PREFECT_API_URL": "http://127.0.0.1:9/api"}, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("the Prefect API at http://127.0.0.1:9/api does not answer")
    assert "--inline" in done.stderr
