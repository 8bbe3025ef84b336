"""A local server that cannot start says why, before anything is started."""

import socket
from pathlib import Path

from tests.cli.conftest import Gage


def test_a_port_that_is_taken_is_refused_whoever_answers_there(gage: Gage, workspace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = gage("server", "start", "--port", str(port))
    assert (said.code, said.err) == (2, f"port {port} is taken: give another --port, or none for a free one.\n")
    assert not (workspace / ".gage").exists()


def test_a_folder_that_cannot_be_written_is_named(gage: Gage, workspace: Path) -> None:
    (workspace / ".gage").write_text("a file")
    said = gage("server", "start")
    assert said.code == 2
    assert said.err.startswith(".gage/prefect cannot be written (")
    assert gage("server", "status").code == 0
