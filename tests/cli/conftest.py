"""The command line in this process, in a working folder of the test's own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from gage_eval.cli.main import main
from tests.support.workspace import write_config, write_rows


@dataclass(frozen=True)
class Said:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.out)


Gage = Callable[..., Said]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows.jsonl and mine.yaml, where commands run; no Prefect API is configured there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect"))
    write_rows(tmp_path)
    write_config(tmp_path)
    return tmp_path


@pytest.fixture
def gage(workspace: Path, capsys: pytest.CaptureFixture[str]) -> Gage:
    """Runs a command; its exit code and what it printed."""

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        printed = capsys.readouterr()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Said(code or 0, printed.out, printed.err)

    return call
