"""``gage`` in this process: the exit code and what is printed, without the start of an interpreter."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gage_eval.cli import main


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """What a failed command says to the user: all of stderr, which holds no traceback."""
        assert "Traceback" not in self.err
        return self.err.strip()


Command = Callable[..., CommandResult]


def command(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``gage`` inline in a folder: ``gage("run", "sums.yaml")``."""
    monkeypatch.chdir(folder)

    def gage(*arguments: str) -> CommandResult:
        capsys.readouterr()
        with _logging_to_stderr():
            try:
                main([*arguments, *(["--inline"] if arguments[0] in {"run", "resume", "suite"} else [])])
                code = 0
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
        said = capsys.readouterr()
        return CommandResult(code, said.out, said.err)

    return gage


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    """Warnings where a process shows them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
