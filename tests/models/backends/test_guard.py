"""The guard between a run and its engine: neither outlives the run."""

import subprocess
import sys
from pathlib import Path

import pytest

from gage_eval.models.backends import guard
from tests.support.engines import ends
from tests.support.waiting import wait_for

# A process with many threads, all of which end with it, and several engines.
PARENT = """
import os, subprocess, sys, threading, time
for _ in range(40):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
for place in range(int(sys.argv[2])):
    subprocess.Popen([sys.executable, "-I", "-S", sys.argv[1], str(os.getpid()), *sys.argv[3:], str(place)])
time.sleep(600)
"""


ENGINE = """
import os, sys, time
from pathlib import Path
place = Path(sys.argv[1], sys.argv[2])
place.with_suffix(".new").write_text(f"{os.getppid()} {os.getpid()}")
place.with_suffix(".new").rename(place.with_suffix(".pids"))
time.sleep(600)
"""
ENGINES = 16


@pytest.mark.parametrize("attempt", range(3))
def test_a_killed_parent_of_many_threads_leaves_neither_guards_nor_engines(tmp_path: Path, attempt: int) -> None:
    """Each thread that ends may send a guard another signal, while it handles the one before."""
    engine = [sys.executable, "-I", "-S", "-c", ENGINE, str(tmp_path)]
    parent = subprocess.Popen([sys.executable, "-c", PARENT, guard.__file__, str(ENGINES), *engine])
    files = wait_for(
        lambda: len(pid_files := list(tmp_path.glob("*.pids"))) == ENGINES and pid_files, "engines", every_s=0.02
    )
    pids = [int(pid) for file in files for pid in file.read_text().split()]
    parent.kill()
    parent.wait()
    assert all(ends(pid) for pid in pids)
