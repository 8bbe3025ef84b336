"""A child of the harness is ended at any moment of its life."""

import subprocess
import sys

# The child has no session of its own yet, as one that has not had a processor since the fork.
ENDED_EARLY = """
import os, time
from gage_eval.box.inside.run import Run
os.setsid = lambda: time.sleep(60)
run = Run(lambda: os._exit(0))
run.end()
print(run.code)
"""


def test_a_child_without_its_session_is_ended_too() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDED_EARLY], capture_output=True, text=True, check=True)
    assert ended.stdout == "-9\n"
