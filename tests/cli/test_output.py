"""Standard output may lack letters, be closed or lose its reader: commands and runs come to their end all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from gage_eval.cli.main import main
from gage_eval.errors import InputError
from tests.cli.conftest import Gage

GAGE = f"'{sys.executable}' -m gage_eval"
RUN = f"{GAGE} run mine.yaml --inline --run-id first"


def shell(line: str) -> tuple[int, str]:
    """Exit code of the line's first command, and what was said on standard error."""
    done = subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize(
    "line",
    [f"{RUN} | head -n 1", f"{RUN} | true", f"PYTHONIOENCODING=ascii {RUN}", f"{RUN} >&-"],
    ids=["a reader of one line", "no reader", "letters", "closed"],
)
def test_a_run_comes_to_its_end(gage: Gage, workspace: Path, line: str) -> None:
    assert shell(line) == (0, "")
    (row,) = gage("show", "--json").json
    assert row["status"] == "completed"


def test_a_table_nobody_reads_to_its_end_is_no_failure(workspace: Path) -> None:
    assert shell(f"{GAGE} list | head -n 1") == (0, "")
    assert shell(f"{GAGE} list >&-") == (0, "")


@pytest.mark.parametrize("arguments", [("--debug", "run", "nope.yaml"), ("run", "nope.yaml", "--debug")])
def test_debug_may_stand_anywhere(workspace: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"no config file 'nope\.yaml'"):
        main(list(arguments))
