"""The event loop and the engines that several runs of a process share."""

from collections.abc import Collection

from gage_eval.engine.loop import EventLoop
from gage_eval.models.backends.engines import Engines


class EngineHost:
    """Keeps engines running between runs. Use as a context manager; all of them stop at its end.

    Attributes:
        loop: of all runs, because an engine's connections belong to a loop.
        engines: the engines that are running.
    """

    def __init__(self) -> None:
        self.loop = EventLoop()
        self.engines = Engines(keep_idle=True)

    def keep(self, keys: Collection[str]) -> None:
        """Stop the engines that are not among these. Call it before a run, with the keys it needs."""
        if self.loop.is_started:
            self.loop.call(self.engines.keep(keys))

    def close(self) -> None:
        """Stop all engines and the loop."""
        try:
            if self.loop.is_started:
                self.loop.call(self.engines.close())
        finally:
            self.loop.close()

    def __enter__(self) -> "EngineHost":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
