"""Ends a flow run on a worker when the worker is gone."""

import logging
import os
import select
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds between two looks for the worker.
_LOOK_EVERY_S = 1.0
# Time that the run has to end in order when its worker is gone, before its process ends at once.
_GRACE_S = 8.0

_log = logging.getLogger("gage_eval")


@contextmanager
def watched() -> Iterator[None]:
    """End this process when its worker is gone.

    Cancel in the UI does not reach a run whose worker was killed. It gets SIGTERM, as from a worker that stops:
    Prefect's engine then reports the state Crashed, from which a run is resumed.
    """
    over = threading.Event()
    threading.Thread(target=_watch, args=(os.getppid(), over), name="gage-eval-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(worker: int, over: threading.Event) -> None:
    # Prefect needs seconds to start a flow. A worker that was killed in that time is no longer the parent.
    gone = _is_output_unread()
    while not gone:
        if over.wait(_LOOK_EVERY_S):
            return
        gone = os.getppid() != worker
    _let_go_of_pipes()
    _log.warning("the worker of this run is gone; the run stops. What was computed is kept.")
    os.kill(os.getpid(), signal.SIGTERM)
    if not over.wait(_GRACE_S):
        # Engines end with the process.
        os._exit(128 + signal.SIGTERM)


def _is_output_unread() -> bool:
    """Whether the output goes into a pipe that is closed at its other end. A worker reads the output of its runs."""
    ends = select.poll()
    for stream in (1, 2):
        if stat.S_ISFIFO(os.fstat(stream).st_mode):
            # Errors are reported without being asked for.
            ends.register(stream, 0)
    return bool(ends.poll(0))


def _let_go_of_pipes() -> None:
    """Point output that went through the worker nowhere: at a broken pipe, the console of Prefect raises SystemExit."""
    with open(os.devnull, "wb") as nothing:
        for stream in (1, 2):
            if stat.S_ISFIFO(os.fstat(stream).st_mode):
                os.dup2(nothing.fileno(), stream)
