"""A config, its plug-in and its data go to a worker of another folder through the store alone."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.endpoint import mock_endpoint
from support.runs import gage, write_config

pytestmark = pytest.mark.e2e

COMPUTED, CACHED = ("COMPLETED", "Completed"), ("COMPLETED", "Cached")
ROWS = 12
METRIC = "from limits import LEAST\n\ndef long(prediction: str, reference: str) -> float:\n    return float(LEAST)\n"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The folder of a config with a data file and a plug-in, which imports its neighbour."""
    folder = tmp_path / "project"
    (folder / "plug").mkdir(parents=True)
    (folder / "plug" / "long.py").write_text(METRIC)
    (folder / "plug" / "limits.py").write_text("LEAST = 1\n")
    yield folder
    assert not folder.exists(), "the test removed it before the worker ran"


def test_a_submitted_run_needs_nothing_of_the_submitters_machine(cluster: Cluster, project: Path) -> None:
    with mock_endpoint(latency_ms=5) as endpoint:
        config = write_config(project, endpoint.url, rows=ROWS, metrics=["numeric_match", "plug/long.py:long"])
        cluster.api("PATCH", "/work_pools/local", {"is_paused": True})
        try:
            arguments = ["--submit", "--json", "--run-id", "travelled", "--store", str(cluster.store)]
            done = gage(project, "run", config.name, *arguments, env=cluster.env)
            assert str(project) not in done.stdout
            shutil.rmtree(project)
        finally:
            cluster.api("PATCH", "/work_pools/local", {"is_paused": False})
        (run,) = cluster.api("POST", "/flow_runs/filter", {"flow_runs": {"name": {"any_": ["travelled"]}}})
        assert str(project) not in str(run["parameters"])
        ended = cluster.finished(run["id"])
        assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
        assert endpoint.stats()["requests"] == ROWS

    assert set(cluster.states(run["id"]).values()) == {COMPUTED}


def test_a_worker_retries_a_run_of_another_machine_from_its_cached_stages(cluster: Cluster, project: Path) -> None:
    with mock_endpoint() as gone:
        url = gone.url
    quick = {"max_attempts": 2, "max_elapsed_s": 2.0}
    config = write_config(project, url, rows=ROWS, backend=quick, metrics=["numeric_match", "plug/long.py:long"])
    arguments = ["--run-id", "travelled-late", "--store", str(cluster.store)]
    assert gage(project, "run", config.name, *arguments, env=cluster.env, check=False).returncode == 1
    shutil.rmtree(project)
    (run,) = cluster.api("POST", "/flow_runs/filter", {"flow_runs": {"name": {"any_": ["travelled-late"]}}})

    with mock_endpoint(port=url.split(":")[2].split("/")[0]):
        ended = cluster.retry(run["id"])

    assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
    states = cluster.states(run["id"])
    before_infer = [states[f"{stage} sums"] for stage in ("load", "standardize", "preprocess")]
    assert before_infer == [CACHED] * 3, "the keys do not depend on the machine"
