"""Stands between a run and an engine it starts: no process of the engine outlives the run.

Run as a script with the engine's command as arguments; it imports nothing of this package. The engine gets a process
separate group. When the engine ends, when this process is stopped, and when its parent is gone, the whole group
is killed, workers the engine started included.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.2
_GRACE_S = 5.0


def main() -> None:
    """Run the command until it ends, or until the parent is gone or says so; exit with the command's status."""
    parent = int(sys.argv[1])
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.append(number))
    _at_parents_death(signal.SIGTERM)
    engine = subprocess.Popen(  # noqa: S603 - a backend's command
        sys.argv[2:],
        process_group=0,
        # What the parent hands to the engine (pipes, a socket) goes through as it is.
        close_fds=False,
        # There is one thread here, so nothing can hold a lock the child waits for.
        preexec_fn=lambda: _at_parents_death(signal.SIGKILL),
    )
    _let_go_of_streams()
    heard = _pipe_of_signals()
    while _runs(engine) and os.getppid() == parent and not told:
        select.select([heard], [], [], _LOOK_EVERY_S)
    if _runs(engine) and os.getppid() == parent:
        os.killpg(engine.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        while _runs(engine) and time.monotonic() < deadline:
            time.sleep(0.02)
    # Not reaped yet, so the group's number cannot belong to anybody else.
    with suppress(ProcessLookupError):
        os.killpg(engine.pid, signal.SIGKILL)
    status = engine.wait()
    os._exit(status if status >= 0 else 128 - status)


def _at_parents_death(number: int) -> None:
    """Ask the kernel for a signal; where it cannot send one, looking at getppid has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)


def _pipe_of_signals() -> int:
    """A pipe that becomes readable when a signal arrives.

    A handler that takes a lock, such as that of an event, could wait for itself: the kernel sends a signal for each
    thread of a parent that ends, and each interrupts the handler of the one before.
    """
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return heard


def _runs(engine: "subprocess.Popen[bytes]") -> bool:
    """Whether the engine has not ended; it is not reaped."""
    return os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None


def _let_go_of_streams() -> None:
    """Close what only the engine uses, so that its end of a pipe or socket is the only one."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.closerange(3, os.sysconf("SC_OPEN_MAX") if "SC_OPEN_MAX" in os.sysconf_names else 256)


if __name__ == "__main__":
    main()
