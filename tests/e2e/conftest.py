"""A real Prefect server and a real worker, each a process of its own, shared by the end-to-end tests."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from support.cluster import Cluster, postgres_programs
from support.cluster import cluster as running_cluster
from support.prefect import ROOT, Prefect
from support.runs import gage

from gage_eval import server

DEPLOY = """
import json, sys
from prefect import flow
suite = flow.from_source(source=sys.argv[1], entrypoint="flows/suite.py:suite")
suite.deploy(name="e2e", work_pool_name="e2e", ignore_warnings=True, print_next_steps=False)
print(json.dumps("deployed"))
"""


@pytest.fixture(scope="session")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A running server and a process worker with a deployment ``suite/e2e``."""
    folder = tmp_path_factory.mktemp("prefect")
    home = folder / server.HOME
    port = server._free_port()
    gage(folder, "server", "start", "--port", str(port))
    running = Prefect(folder, f"http://127.0.0.1:{port}/api", home)
    worker_log = (folder / "worker.log").open("wb")
    worker: subprocess.Popen[bytes] | None = None
    try:
        create = [sys.executable, "-m", "prefect", "work-pool", "create", "e2e", "--type", "process"]
        subprocess.run(create, env=running.env, check=True, capture_output=True, timeout=120)
        running.script(DEPLOY, str(ROOT))
        worker = subprocess.Popen(
            [sys.executable, "-m", "prefect", "worker", "start", "--pool", "e2e"],
            cwd=folder,
            env={**running.env, "PREFECT_WORKER_QUERY_SECONDS": "2"},
            stdout=worker_log,
            stderr=subprocess.STDOUT,
        )
        wait_until_online(running, worker)
        yield running
    finally:
        if worker is not None:
            worker.terminate()
            worker.wait(timeout=60)
        worker_log.close()
        gage(folder, "server", "stop")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A Prefect server on Postgres with a worker on each of two pools."""
    if postgres_programs() is None:
        missing = pytest.fail if pytestconfig.option.markexpr == "e2e" else pytest.skip
        missing("needs Postgres (Debian: postgresql)")
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def wait_until_online(prefect: Prefect, worker: "subprocess.Popen[bytes]") -> None:
    """Wait until the worker has registered with its pool."""
    code = """
import json
from prefect.client.orchestration import get_client
with get_client(sync_client=True) as client:
    print(json.dumps(len(client._client.post("/work_pools/e2e/workers/filter", json={}).json())))
"""
    deadline = time.monotonic() + 120
    while prefect.script(code) == 0:
        assert worker.poll() is None, "the worker ended: " + (prefect.folder / "worker.log").read_text()[-2000:]
        assert time.monotonic() < deadline, "the worker did not register"
