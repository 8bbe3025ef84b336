"""Work that this process repeats in the background."""

import threading
from collections.abc import Callable


class Periodic:
    """Calls a function regularly in a separate thread, from `start` until `stop`.

    Args:
        work: what is called. It handles its own errors: one that it raises ends the thread.
        every_s: the wait before each call.
        name: of the thread.
    """

    def __init__(self, work: Callable[[], None], every_s: float, *, name: str) -> None:
        self._work = work
        self._every_s = every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name=name, daemon=True)

    @property
    def is_started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Call the function for the first time after one wait."""
        self._thread.start()

    def stop(self) -> None:
        """Make no further call, and wait for one that is running. The function itself may call this."""
        self._end.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _repeat(self) -> None:
        while not self._end.wait(self._every_s):
            self._work()
