"""A real Prefect server and a real worker, each a process of its own, shared by the end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster, postgres_programs
from support.cluster import cluster as running_cluster
from support.prefect import Prefect
from support.runs import gage

from gage_eval.base.ports import free_port
from gage_eval.local import server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The first test of a session starts the server as well, which takes minutes on a busy machine.
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(1200))


# It ends with the tests of this folder: an idle server still takes CPU time from those that follow.
@pytest.fixture(scope="package")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A running server with its deployments and its worker, as ``gage server start`` leaves them."""
    folder = tmp_path_factory.mktemp("prefect")
    port = free_port()
    gage(folder, "server", "start", "--port", str(port))
    try:
        yield Prefect(folder, f"http://127.0.0.1:{port}/api", folder / server.HOME)
    finally:
        gage(folder, "server", "stop")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A Prefect server on Postgres with its deployments and a worker on each of two pools."""
    if postgres_programs() is None:
        missing = pytest.fail if pytestconfig.option.markexpr.startswith("e2e") else pytest.skip
        missing("needs Postgres (Debian: postgresql)")
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
