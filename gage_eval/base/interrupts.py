"""Ctrl-C and SIGTERM: the first ends a command in order, the second ends its process at once.

The first one raises KeyboardInterrupt in the main thread: requests in flight are cancelled, engines are stopped, the
run records its end. The second one waits for nothing, so that nothing can hang; what was computed is in the store.
A signal that comes just before the main thread begins to wait would be handled only after the wait; another one, of no
meaning, ends the wait.
After SIGTERM the process ends within `GRACE_S` in any case.

A plug-in that calls ``os._exit`` ends nothing: it raises SystemExit, as ``sys.exit`` does. Otherwise a command could
end with exit code 0 in the middle of a run.

Engines end with the process, whatever ends it (`gage_eval.models.backends.guard`).
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import NoReturn

# So long a process may take to end in order after SIGTERM.
GRACE_S = 20.0
# This long after the first Ctrl-C, a message says that a second one ends the command at once.
_TELL_AFTER_S = 2.0
_AGAIN = "Stopping; what was computed is kept. Press Ctrl-C again to end at once.\n"

_HANDLED = (signal.SIGINT, signal.SIGTERM)
# Ends a call in which the main thread waits, after this time in seconds, and again so often while it has no effect.
_WAKE = signal.SIGURG
_WAKE_AFTER_S = 0.1
_WAKES = 20
_end_process = os._exit

_received: list[int] = []
_is_handled = False
_is_over = False
_command: int | None = None


def handle() -> None:
    """Handle both signals and ``os._exit`` from now on. Call it in the main thread."""
    global _is_handled, _command
    read, write = os.pipe()
    os.set_blocking(write, False)
    # Python's own handlers wait for the main thread, which code of others may never let go of.
    threading.Thread(target=_watch, args=(read,), name="gage-eval-signals", daemon=True).start()
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in _HANDLED:
        signal.signal(number, _interrupt)
    signal.signal(_WAKE, lambda number, frame: None)
    _command, os._exit = os.getpid(), _exit
    _is_handled = True


def received() -> int | None:
    """The first signal received; None before."""
    return _received[0] if _received else None


def is_real() -> bool:
    """Whether a KeyboardInterrupt of this thread is a Ctrl-C, not raised by other code.

    Without `handle`, as in a notebook, one in the main thread is taken for a Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    return bool(_received) or not _is_handled


def raise_if_received() -> None:
    """Raise the KeyboardInterrupt again that code of others may have swallowed.

    Raises:
        KeyboardInterrupt: a signal came, and this is the main thread.
    """
    if _received and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def command_is_over() -> None:
    """Let the first signal end the process at once from now on, because only hanging threads are left."""
    global _is_over
    _is_over = True


def _interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) > 1 or _is_over:
        _end_now(number)
    raise KeyboardInterrupt


def _watch(pipe: int) -> None:
    """Do what must be done although the main thread does nothing."""
    first = _next(pipe)
    if _is_over:
        _end_now(first)
    deadline = threading.Timer(GRACE_S, _end_now, (first,))
    hint = threading.Timer(_TELL_AFTER_S, _say, (_AGAIN,))
    for timer in (deadline, hint):
        timer.daemon = True
    (deadline if first == signal.SIGTERM else hint).start()
    threading.Thread(target=_wake_main_thread, name="gage-eval-wake", daemon=True).start()
    _end_now(_next(pipe))


def _wake_main_thread() -> None:
    """Have the main thread handle the first signal, if it waits."""
    for _ in range(_WAKES):
        time.sleep(_WAKE_AFTER_S)
        if _received:
            return
        signal.pthread_kill(threading.main_thread().ident, _WAKE)  # type: ignore[arg-type]


def _next(pipe: int) -> int:
    """The next Ctrl-C or SIGTERM. Other signals come here too where code of others handles them: an alarm, say."""
    while True:
        number = os.read(pipe, 1)[0]
        if number in _HANDLED:
            return number


def _end_now(number: int) -> None:
    if "multiprocessing" in sys.modules:
        import multiprocessing

        for process in multiprocessing.active_children():
            process.kill()
    _end_process(128 + number)


def _exit(status: int) -> NoReturn:
    """An ``os._exit`` that does not end the command's process, only a child that was forked from it."""
    if os.getpid() != _command:
        _end_process(status)
    raise SystemExit(status)


def _say(text: str) -> None:
    with suppress(OSError):
        os.write(2, text.encode())
