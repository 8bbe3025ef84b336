"""A child of the harness is ended at any moment of its life, and watched."""

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
# An alarm while it looks at its processes.
ALARMED = """
import os, signal
from gage_eval.box.inside.run import Run
run = Run(lambda: os._exit(0))
looks = []
def look():
    looks.append("begins")
    os.kill(os.getpid(), signal.SIGALRM)
    looks.append("ends")
run._watch = look
run.begin({"cpu_s": 9, "output_kb": 1}, files=None)
os.kill(os.getpid(), signal.SIGALRM)
run.end()
print(*looks[:2])
"""


def output_of(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_a_child_without_its_session_is_ended_too() -> None:
    assert output_of(ENDED_EARLY) == "-9\n"


def test_an_alarm_does_not_interrupt_the_look_that_another_one_began() -> None:
    assert output_of(ALARMED) == "begins ends\n"
