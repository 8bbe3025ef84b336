"""GPUs of a machine: each process takes free ones and holds them until it ends. The GPUs here are only names."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gage_eval.base.errors import InputError
from gage_eval.engine.gpus import hold_gpus

GPUS = ["0", "1", "GPU-5a/b", "3"]
HOLDER = """
import sys
from pathlib import Path
from gage_eval.engine.gpus import hold_gpus
with hold_gpus(sys.argv[2].split(","), int(sys.argv[3]), folder=Path(sys.argv[1])) as held:
    print(",".join(held), flush=True)
    sys.stdin.read()
"""


class Holder:
    """A process that holds some GPUs."""

    def __init__(self, folder: Path, count: int) -> None:
        command = [sys.executable, "-c", HOLDER, str(folder), ",".join(GPUS), str(count)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def held(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip().split(",")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_two_runs_on_a_machine_have_different_gpus(tmp_path: Path) -> None:
    first = Holder(tmp_path, 2)
    assert first.held == ["0", "1"]
    with hold_gpus(GPUS, 2, folder=tmp_path) as held:
        assert held == ["GPU-5a/b", "3"]
    first.kill()


def test_a_run_waits_for_the_gpus_of_a_killed_one_and_says_so(tmp_path: Path) -> None:
    first = Holder(tmp_path, 3)
    assert len(first.held) == 3
    said: list[str] = []
    killer = threading.Timer(0.5, first.kill)
    killer.start()
    with hold_gpus(GPUS, 2, folder=tmp_path, waiting=said.append) as held:
        assert held == ["0", "1"]
    killer.join()
    assert said == ["2 of this machine's 4 GPUs are needed and too few are free; waiting for them."]


def test_a_run_that_waits_for_gpus_can_be_cancelled(tmp_path: Path) -> None:
    def cancelled() -> None:
        raise KeyboardInterrupt

    with (
        hold_gpus(GPUS, 4, folder=tmp_path),
        pytest.raises(KeyboardInterrupt),
        hold_gpus(GPUS, 1, folder=tmp_path, check=cancelled),
    ):
        raise AssertionError("no GPU is free")


def test_a_machine_with_too_few_gpus_is_refused_at_once(tmp_path: Path) -> None:
    refused = pytest.raises(InputError, match=r"needs 5 GPUs and this machine has 4\. Lower gpus or")
    with refused, hold_gpus(GPUS, 5, folder=tmp_path):
        raise AssertionError("there are only 4")
