"""The first Ctrl-C ends a run in order, the second at once, whatever hangs; exit code 0 only when a run completed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crash.processes import PATIENCE_S, Gage, status, until
from support.workspace import write_config, write_rows

from gage_eval.pipeline.load import PART_ROWS

SHORT_GRACE = """
import sys
from gage_eval.base import interrupts
interrupts.GRACE_S = 0.5
from gage_eval.cli import main
main()
"""

# Each says by a file that it hangs; after that only a signal that waits for nothing ends it.
HANGS = """
import pathlib
import time


def hang(prediction: str) -> float:
    while True:
        try:
            pathlib.Path("hangs").touch()
            time.sleep(600)
        except BaseException:
            pathlib.Path("swallowed").touch()
"""
SWALLOWS = """
import pathlib
import time


def swallow(prediction: str) -> float:
    try:
        pathlib.Path("hangs").touch()
        time.sleep(600)
    except BaseException:
        pass
    return 1.0
"""

ALARMS = """
import signal


def stop(number, frame):
    raise TimeoutError


def limited(prediction: str) -> float:
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        while True:
            pass
    except TimeoutError:
        return 1.0
"""


def prepared(folder: Path, code: str, metric: str, **changes: object) -> Gage:
    write_rows(folder)
    (folder / "own.py").write_text(code)
    write_config(folder, metrics=[f"own.py:{metric}"], **changes)
    return Gage(folder)


def started(gage: Gage, *arguments: str) -> "subprocess.Popen[bytes]":
    process = gage.start("run", "mine.yaml", "--run-id", "first", *arguments)
    assert until((gage.folder / "hangs").exists, process), gage.said()
    return process


# The kernel gives the signal to another thread: like one that comes just before the main thread waits.
UNWOKEN = HANGS.replace("while True:", "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n    while True:")


@pytest.mark.parametrize("code", [HANGS, f"import signal\n{UNWOKEN}"], ids=["waits", "is not woken"])
def test_the_second_ctrl_c_ends_a_run_whose_metric_hangs(tmp_path: Path, code: str) -> None:
    gage = prepared(tmp_path, code, "hang")
    process = started(gage)
    process.send_signal(signal.SIGINT)
    assert until((tmp_path / "swallowed").exists, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130, gage.said()
    assert "Traceback" not in gage.said()


def test_sigterm_ends_a_run_whose_metric_hangs(tmp_path: Path) -> None:
    (tmp_path / "gage.py").write_text(SHORT_GRACE)
    prepared(tmp_path, HANGS, "hang")
    gage = Gage(tmp_path, ("gage.py",))
    process = started(gage)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 143, gage.said()


def test_a_ctrl_c_that_a_metric_swallows_ends_the_run_all_the_same(tmp_path: Path) -> None:
    gage = prepared(tmp_path, SWALLOWS, "swallow")
    process = started(gage)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130, gage.said()
    assert status(tmp_path, "first") == "interrupted"


def test_alarms_of_a_metric_that_limits_its_time_do_not_end_the_run(tmp_path: Path) -> None:
    gage = prepared(tmp_path, ALARMS, "limited")
    process = gage.start("run", "mine.yaml", "--run-id", "first")
    assert process.wait(PATIENCE_S) == 0, gage.said()
    assert status(tmp_path, "first") == "completed"
    assert "Ctrl-C" not in gage.said()


@pytest.mark.parametrize(
    ("leaves", "raised"),
    [
        ("sys.exit(0)", "SystemExit"),
        ("os._exit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
    ],
)
def test_a_metric_that_would_end_the_process_does_not(tmp_path: Path, leaves: str, raised: str) -> None:
    gage = prepared(tmp_path, f"import os, sys\ndef leave(prediction: str) -> float:\n    {leaves}\n", "leave")
    process = gage.start("run", "mine.yaml", "--run-id", "first")
    assert process.wait(PATIENCE_S) == 1, gage.said()
    assert status(tmp_path, "first") != "completed"
    assert f"own.py:leave() raised {raised}" in gage.said()
    assert "Traceback" not in gage.said()


def test_a_killed_scoring_process_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, signal\ndef die(prediction: str) -> float:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    gage = prepared(tmp_path, code, "die")
    write_rows(tmp_path, PART_ROWS + 1)
    monkeypatch.setenv("GAGE_EVAL_AUTOEVAL_WORKERS", "2")
    process = gage.start("run", "mine.yaml", "--run-id", "first")
    assert process.wait(PATIENCE_S) == 1, gage.said()
    assert "auto_eval: a scoring process was killed" in gage.said()
    assert "Traceback" not in gage.said()
    assert status(tmp_path, "first") == "failed"


def test_a_process_that_hangs_at_its_end_is_ended_by_one_ctrl_c(tmp_path: Path) -> None:
    code = (
        "import pathlib, threading, time\n"
        "from gage_eval.cli import main\n"
        "def hang():\n"
        "    threading.main_thread().join()\n"
        "    pathlib.Path('hangs').touch()\n"
        "    time.sleep(600)\n"
        "threading.Thread(target=hang).start()\n"
        "main()\n"
    )
    (tmp_path / "gage.py").write_text(code)
    with (tmp_path / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "gage.py", "--version"], cwd=tmp_path, env=dict(os.environ), stdout=output, stderr=output
        )
    assert until((tmp_path / "hangs").exists, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
