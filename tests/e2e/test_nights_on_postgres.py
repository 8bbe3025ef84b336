"""Nights on a real server: started by their schedule, gated, told by event and webhook, looked into by triage."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from support.cluster import Cluster
from support.runs import gage
from support.waiting import wait_for

pytestmark = pytest.mark.e2e

COUNT = 400
MODELS = ("steady", "shaky")


@pytest.fixture
def calls() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """URL of a webhook, and the bodies that it was sent."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Keep the output of the tests clean."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook", received
        server.shutdown()


def answer(folder: Path, model: str, right: int) -> None:
    rows = [{"id": f"s{n}", "output": str(n + 1) if n < right else "no"} for n in range(COUNT)]
    (folder / f"{model}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def write_nights(folder: Path, name: str, **more: Any) -> None:
    """Two models on one config, and a file that runs both every minute."""
    rows = [{"id": f"s{n}", "question": f"{n} + 1 = ?", "answer": str(n + 1)} for n in range(COUNT)]
    (folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    config = {
        "metadata": {"name": f"{name}-sums"},
        "datasets": [{"dataset_id": "sums", "params": {"path": "rows.jsonl"}}],
        "backends": [
            {"backend_id": "model", "type": "replay", "config": {"path": "steady.jsonl", "answer_field": "output"}}
        ],
        "metrics": ["exact_match"],
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(config))
    models = []
    for model in MODELS:
        answer(folder, model, 320)
        models.append({"name": model, "options": {"overrides": [f"backends.model.config.path={model}.jsonl"]}})
    nightly = {
        "name": name,
        "schedule": {"cron": "* * * * *", "timezone": "Europe/Berlin"},
        "rows": [{"config": "mine.yaml"}],
        "models": models,
        **more,
    }
    (folder / "nightly.yaml").write_text(yaml.safe_dump(nightly))


def set_baselines(cluster: Cluster, folder: Path, name: str) -> None:
    store = ("--store", str(cluster.store))
    for model in MODELS:
        path = f"backends.model.config.path={model}.jsonl"
        run_id = f"{name}-base-{model}"
        gage(folder, "run", "mine.yaml", "--inline", "--run-id", run_id, "--set", path, "--freshness", "base", *store)
        gage(folder, "baseline", "set", model, run_id, *store)


@pytest.fixture
def deploy(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Deploys the file of nightly runs of this name; its deployment is deleted after the test."""
    deployed = []

    def deploy(name: str) -> None:
        pools = ("--pool", "local", "--gpu-pool", "h100", "--store", str(cluster.store))
        gage(tmp_path, "deploy", *pools, "--nightly", "nightly.yaml", env=cluster.env)
        deployed.append(name)

    yield deploy
    for name in dict.fromkeys(deployed):
        there = cluster.deployment(f"nightly/{name}")
        cluster.api("DELETE", f"/deployments/{there['id']}")


def pause(cluster: Cluster, deployment: str) -> None:
    """Start no further nights by the schedule."""
    stored = cluster.deployment(deployment)
    cluster.api("POST", f"/deployments/{stored['id']}/pause_deployment")


def newest(cluster: Cluster, deployment: str, **where: Any) -> list[dict[str, Any]]:
    """Flow runs of a deployment that have ended, the newest first."""
    stored = cluster.deployment(deployment)
    query = {"deployment_id": {"any_": [stored["id"]]}, "state": {"type": {"any_": ["COMPLETED", "FAILED"]}}, **where}
    runs: list[dict[str, Any]] = cluster.api(
        "POST", "/flow_runs/filter", {"flow_runs": query, "sort": "START_TIME_DESC"}
    )
    return runs


def artifact(cluster: Cluster, key: str) -> str:
    artifacts = cluster.api("POST", "/artifacts/latest/filter", {"artifacts": {"key": {"any_": [key]}}})
    return str(artifacts[0]["data"])


def test_a_planted_regression_is_gated_told_and_looked_into(
    cluster: Cluster,
    tmp_path: Path,
    calls: tuple[str, list[dict[str, Any]]],
    deploy: Callable[[str], None],
) -> None:
    url, received = calls
    write_nights(tmp_path, "planted", webhook=url)
    set_baselines(cluster, tmp_path, "planted")
    deploy("planted")

    scheduled = wait_for(lambda: newest(cluster, "nightly/planted"), "a night starts by its schedule and ends", 600)
    pause(cluster, "nightly/planted")
    assert "auto-scheduled" in scheduled[0]["tags"]
    assert (scheduled[0]["state_type"], scheduled[0]["state"]["message"]) == ("COMPLETED", "2 passed")
    assert "data:image/svg+xml;base64," in artifact(cluster, "planted-trend")
    assert received == []

    answer(tmp_path, "shaky", 280)
    deploy("planted")
    night = cluster.finished(cluster.submit("nightly/planted", {}))
    assert (night["state_type"], night["state_name"]) == ("FAILED", "Regressed"), night["state"]["message"]
    assert night["state"]["message"] == "mine.yaml with shaky: regressed (sums exact_match −0.100)"
    page = artifact(cluster, "planted-night")
    assert "- **regressed**, alarm withheld: mine.yaml with shaky, sums exact\\_match 0.800 → 0.700 (−0.100" in page
    assert re.search(r"run \[planted-[\w.-]+-shaky\]\(http\S+/runs/flow-run/[\w-]+\), then its triage "
                     r"\[planted-sums-triage\]\(http\S+/artifacts/key/planted-sums-triage\)", page)  # fmt: skip

    assert "data:image/svg+xml;base64," in artifact(cluster, "planted-sums-verdict")

    assert re.fullmatch(r"planted-\d{4}-\d\d-\d\d", night["name"])
    log = cluster.api("POST", "/logs/filter", {"logs": {"flow_run_id": {"any_": [night["id"]]}}})
    assert not any("Traceback" in line["message"] for line in log), "a regression does not look like a crash"
    parent = {"flow_runs": {"parent_flow_run_id": {"any_": [night["id"]]}}}
    inner = cluster.api("POST", "/flow_runs/filter", parent)
    assert sorted(run["name"].rpartition("-")[2] for run in inner) == sorted(MODELS)

    wait_for(lambda: received, "the webhook is called")
    assert received[0]["text"].startswith("mine.yaml with shaky: regressed (sums exact_match −0.100)\nNight: http")
    assert received[0]["model"] == "shaky"
    assert received[0]["tasks"][0]["verdict"] == "regressed"
    emitted = {"filter": {"event": {"prefix": ["gage.regression"]}}}
    # The server stores events later than it acts on them.
    events = wait_for(lambda: cluster.api("POST", "/events/filter", emitted)["events"], "the event is stored")
    assert [event["event"] for event in events] == ["gage.regression.detected"]

    triaged = wait_for(lambda: newest(cluster, "triage/triage"), "the triage ends", 300)
    assert triaged[0]["state_type"] == "COMPLETED", triaged[0]["state"]["message"]
    assert triaged[0]["state"]["message"].endswith("regressed; sums confirmed")
    page = artifact(cluster, "planted-sums-triage")
    assert "**Confirmed**" in page
    assert page.index("the likeliest cause first") < page.index("#### s280")

    wait_for(lambda: received[1:], "the webhook is called by the triage")
    assert "sums confirmed\nTriage: http" in received[1]["text"]

    run_id = received[0]["run"]
    store = ("--store", str(cluster.store))
    gage(tmp_path, "baseline", "promote", "shaky", run_id, *store)
    promoted = cluster.finished(cluster.submit("nightly/planted", {"attempt": "fixed", "models": ["shaky"]}))
    assert (promoted["state_type"], promoted["state"]["message"]) == ("COMPLETED", "1 passed")
    assert promoted["name"].endswith(".fixed")
    assert "against the anchor of the baseline the verdict is regressed" in artifact(cluster, "planted-night")


@pytest.mark.slow
def test_a_cell_that_crashes_leaves_the_others(
    cluster: Cluster,
    tmp_path: Path,
    calls: tuple[str, list[dict[str, Any]]],
    deploy: Callable[[str], None],
) -> None:
    url, received = calls
    write_nights(tmp_path, "crashing", webhook=url)
    set_baselines(cluster, tmp_path, "crashing")
    (tmp_path / "steady.jsonl").unlink()
    deploy("crashing")
    pause(cluster, "nightly/crashing")
    for name in ("mine.yaml", "rows.jsonl", "shaky.jsonl"):
        # The worker reads what was deployed.
        (tmp_path / name).unlink()

    night = cluster.finished(cluster.submit("nightly/crashing", {}))

    assert night["state_type"] == "FAILED"
    assert "mine.yaml with steady: failed" in night["state"]["message"]
    page = artifact(cluster, "crashing-night")
    assert "- **failed**: mine.yaml with steady" in page
    assert "- **passed**, alarm withheld: mine.yaml with shaky, sums exact\\_match" in page
    wait_for(lambda: received, "the webhook is called")
    assert received[0]["text"].startswith(f"The night {night['name']} Failed: mine.yaml with steady: failed")
