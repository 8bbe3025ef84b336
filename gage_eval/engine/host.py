"""What several runs share that follow each other in one process: the event loop, the engines on it, and shards."""

from collections.abc import Collection

from gage_eval.engine.loop import EventLoop
from gage_eval.engine.shard_groups import ShardGroups
from gage_eval.models.backends.engines import Engines


class EngineHost:
    """Keeps engines and shards running between runs. Use as a context manager; all of them stop at its end.

    Attributes:
        loop: of all runs, because an engine's connections belong to a loop.
        engines: the engines that are running.
        shards: groups of shards, which run engines elsewhere.
    """

    def __init__(self) -> None:
        self.loop = EventLoop()
        self.engines = Engines(keep_idle=True)
        self.shards = ShardGroups(keep_idle=True)

    def keep(self, keys: Collection[str]) -> None:
        """Stop the engines and shards that are not among these. Call it before a run, with the keys it needs."""
        self.shards.keep(keys)
        if self.loop.is_started:
            self.loop.call(self.engines.keep(keys))

    def close(self) -> None:
        """Stop all shards, all engines and the loop."""
        try:
            self.shards.close()
        finally:
            self._close_engines()

    def _close_engines(self) -> None:
        try:
            if self.loop.is_started:
                self.loop.call(self.engines.close())
        finally:
            self.loop.close()

    def __enter__(self) -> "EngineHost":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
