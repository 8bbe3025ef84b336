"""Waiting in tests, on machines that stand still for half a minute at a time."""

import os
import threading
import time
from collections.abc import Callable
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

# Ends a test that hangs. It is no promise of ours: whatever passes is much sooner on a machine that works.
PATIENCE_S = 120.0
# A turn of a stopwatch rests for this time, and counts for at most that one.
_TURN_S, _LONGEST_TURN_S = 0.02, 0.1


def wait_for(true: Callable[[], Any], what: str, within_s: float = PATIENCE_S, every_s: float = 0.2) -> Any:
    """Wait until a condition holds and return its value."""
    deadline = time.monotonic() + within_s
    while not (value := true()):
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        time.sleep(every_s)
    return value


class Stopwatch:
    """Measures the seconds that pass inside a ``with``, without those in which the machine stands still.

    The machine of a CI service stops at times: nothing gets a processor, or its disk does not answer. A thread rests
    and writes to the disk in turns, which both takes a few milliseconds. Of a turn that takes long, the rest is the
    machine's.

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
            while not self._over.wait(_TURN_S):
                os.pwrite(file.fileno(), b"x", 0)
                os.fdatasync(file.fileno())
                now = time.monotonic()
                self.seconds += min(now - began, _LONGEST_TURN_S)
                began = now
            self.seconds += min(time.monotonic() - began, _LONGEST_TURN_S)
