"""A working folder with two datasets."""

from pathlib import Path

import pytest

from tests.support.workspace import write_rows


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with rows.jsonl and three rows in more.jsonl."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_rows(tmp_path, 3, name="more.jsonl", first=50)
    return tmp_path
