"""The event loop and the engines that several runs of a process share."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from gage_eval.engine.loop import EventLoop
from gage_eval.models.backends.engines import Engines


class SharedEngines:
    """Keeps engines running between runs. Use as a context manager; all of them stop at its end.

    Attributes:
        loop: of all runs, because an engine's connections belong to a loop.
        engines: the engines that are running.
    """

    def __init__(self) -> None:
        self.loop = EventLoop()
        self.engines = Engines(keep_idle=True)
        self._lock = threading.Lock()
        self._cancels: list[Callable[[], None]] = []
        self._is_cancelled = False

    def keep(self, keys: Collection[str]) -> None:
        """Stop the engines that no run uses and that are not among these. Call it before a run, with the keys it needs.

        The keys of all runs that go side by side belong to it.
        """
        if self.loop.is_started:
            self.loop.call(self.engines.keep(keys))

    @contextmanager
    def running(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Have `cancel_runs` end a run.

        Args:
            cancel: ends the run soon, from any thread.
        """
        with self._lock:
            self._cancels.append(cancel)
            is_cancelled = self._is_cancelled
        if is_cancelled:
            cancel()
        try:
            yield
        finally:
            with self._lock:
                self._cancels.remove(cancel)

    def cancel_runs(self) -> None:
        """End the runs that go on, and those that begin after this, soon. They raise `RunCancelled`."""
        with self._lock:
            self._is_cancelled = True
            cancels = list(self._cancels)
        for cancel in cancels:
            cancel()

    def close(self) -> None:
        """Stop all engines and the loop."""
        try:
            if self.loop.is_started:
                self.loop.call(self.engines.close())
        finally:
            self.loop.close()

    def __enter__(self) -> "SharedEngines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
