"""``gage`` in this process."""

from pathlib import Path

import pytest
from support.command import Command, command


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``gage`` inline in the test's folder."""
    return command(tmp_path, capsys, monkeypatch)
