"""A real Prefect server and a real worker, each a process of its own, shared by the end-to-end tests."""

from collections.abc import Iterator

import pytest
from support.prefect import Prefect
from support.runs import gage

from gage_eval import server


@pytest.fixture(scope="session")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A running server with its deployments and its worker, as ``gage server start`` leaves them."""
    folder = tmp_path_factory.mktemp("prefect")
    port = server._free_port()
    gage(folder, "server", "start", "--port", str(port))
    try:
        yield Prefect(folder, f"http://127.0.0.1:{port}/api", folder / server.HOME)
    finally:
        gage(folder, "server", "stop")
