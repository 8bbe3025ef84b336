"""``gage`` in this process, in a folder of its own with its own plug-ins."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import Command, command


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``gage`` inline in the test's folder."""
    return command(tmp_path, capsys, monkeypatch)


@pytest.fixture(autouse=True)
def a_path_of_its_own() -> Iterator[None]:
    """Folders that configs append to Python's path are gone afterwards."""
    before = list(sys.path)
    yield
    sys.path[:] = before
