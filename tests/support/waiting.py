"""Waiting and measuring time in tests, also on a machine that stalls for half a minute at a time."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

# Ends a test that hangs. A promise about time needs a `Stopwatch` instead.
PATIENCE_S = 120.0
# How long a stopwatch sleeps in each turn, and the most that a turn counts.
_TURN_S, _LONGEST_TURN_S = 0.05, 0.2
_CPUS = os.cpu_count() or 1


def wait_for(true: Callable[[], Any], what: str, within_s: float = PATIENCE_S, every_s: float = 0.2) -> Any:
    """Wait until a condition holds and return its value."""
    deadline = time.monotonic() + within_s
    while not (value := true()):
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        time.sleep(every_s)
    return value


class Stopwatch:
    """Measures the seconds inside a ``with`` block as they pass on a machine that neither stalls nor has too few CPUs.

    CI machines stall at times: no process gets the CPU, or the disk does not answer. A thread sleeps for a moment and
    syncs a byte to the disk, again and again. A turn that takes much longer was a stall, and only its beginning counts.
    While three times as many processes want a CPU as there are CPUs, a second counts as a third.

    Attributes:
        seconds: measured so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with TemporaryFile() as file:
            began = time.monotonic()
            ended = False
            while not ended:
                ended = self._over.wait(_TURN_S)
                os.pwrite(file.fileno(), b"x", 0)
                os.fdatasync(file.fileno())
                now = time.monotonic()
                self.seconds += min(now - began, _LONGEST_TURN_S) * min(1.0, _CPUS / max(1, runnable()))
                began = now


def runnable() -> int:
    """How many threads of this machine have a CPU or wait for one."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
