"""Standard output may lack letters, be closed, lose its reader or be full: no run is lost, no traceback is shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from gage_eval.base.errors import InputError
from gage_eval.cli.main import main
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


@pytest.mark.parametrize(
    "command",
    ["", "--version", "--help", "list", "schema config", "validate mine.yaml", "plan mine.yaml", "show --json"],
)
def test_a_full_disk_under_standard_output_is_told_in_one_sentence(workspace: Path, command: str) -> None:
    full = "standard output cannot be written (No space left on device): free some space, or redirect it.\n"
    assert shell(f"{GAGE} {command} >/dev/full") == (1, full)


def test_a_run_whose_table_cannot_be_written_is_kept(gage: Gage, workspace: Path) -> None:
    code, said = shell(f"{RUN} >/dev/full")
    assert (code, said.count("\n")) == (1, 1)
    (row,) = gage("show", "--json").json
    assert row["status"] == "completed"


def test_a_full_disk_under_standard_error_changes_no_exit_code(workspace: Path) -> None:
    assert shell(f"{GAGE} run nope.yaml 2>/dev/full")[0] == 2


@pytest.mark.parametrize("arguments", [("--debug", "run", "nope.yaml"), ("run", "nope.yaml", "--debug")])
def test_debug_may_stand_anywhere(workspace: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"no config file 'nope\.yaml'"):
        main(list(arguments))
