"""A run on a worker notices that its worker is gone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

# Watches as a flow does, with a stand-in for the heartbeat. It begins when the file "begin" is there.
RUN = """
import os, signal, sys, threading, time
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "pid").write_text(str(os.getpid()))
while not (folder / "begin").exists():
    time.sleep(0.01)
from flows import watch
watch.HEARTBEAT_S = watch._LOOK_EVERY_S = 0.05
def end(*_):
    (folder / "noticed").touch()
    os._exit(0)
def heartbeat(client):
    with open(folder / "heartbeats", "a") as file:
        file.write(".")
signal.signal(signal.SIGTERM, end)
os.environ["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
watch._watch(os.getppid(), heartbeat, threading.Event())
"""
# Starts the run as a worker does: with its output in a pipe.
WORKER = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
"""


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "what was waited for never came"
        time.sleep(0.01)


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@pytest.mark.parametrize("killed", ["before the flow", "in the flow"])
def test_a_run_notices_that_its_worker_was_killed(killed: str, tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, RUN, str(tmp_path)], stdout=subprocess.DEVNULL)
    until(lambda: size(tmp_path / "pid"))
    try:
        if killed == "before the flow":
            worker.kill()
            worker.wait()
        (tmp_path / "begin").touch()
        if killed == "in the flow":
            until(lambda: size(tmp_path / "heartbeats") >= 5)
            assert not (tmp_path / "noticed").exists()
            worker.kill()
        until((tmp_path / "noticed").exists)
        assert (size(tmp_path / "heartbeats") == 0) == (killed == "before the flow")
    finally:
        worker.kill()
        worker.wait()
        with suppress(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
