"""The requests that are ready to be sent: between the feeder, which renders them, and the workers, which send them."""

import asyncio
from collections import deque
from collections.abc import Iterable

from gage_eval.engine.job import Item

MAX_OPEN_CHUNKS = 8


class ReadyQueue:
    """Holds rendered requests. The feeder waits for room in it, workers wait for items.

    Attributes:
        stopped: why sending has stopped; None while it has not.
    """

    def __init__(self, low: int, most_chunks: int = MAX_OPEN_CHUNKS) -> None:
        """Args:
        low: the next chunk is rendered when no more items than this are ready.
        most_chunks: open chunks at once.
        """
        self.stopped: str | None = None
        self._low = low
        self._most_chunks = most_chunks
        self._items: deque[Item] = deque()
        self._open_chunks = 0
        self._closed = False
        self._more = asyncio.Event()
        self._room = asyncio.Event()

    async def until_room(self) -> None:
        """Wait until another chunk is due, or until the queue is stopped."""
        while self.stopped is None and (len(self._items) > self._low or self._open_chunks >= self._most_chunks):
            self._room.clear()
            await self._room.wait()

    def put_chunk(self, items: Iterable[Item]) -> None:
        """Add the items of one chunk. The chunk is open until `chunk_done`."""
        self._open_chunks += 1
        self._items.extend(items)
        self._more.set()

    def chunk_done(self) -> None:
        """Count one open chunk as committed and freed."""
        self._open_chunks -= 1
        self._room.set()

    def take(self) -> Item | None:
        """The next item; None if none is ready."""
        items = self._items
        if not items:
            return None
        item = items.popleft()
        if len(items) <= self._low:
            self._room.set()
        return item

    async def next(self) -> Item | None:
        """The next item, once it is ready; None after the last one, and when the queue is stopped."""
        while not self._items:
            if self._closed or self.stopped is not None:
                return None
            self._more.clear()
            self._room.set()
            await self._more.wait()
        return self.take()

    def close(self) -> None:
        """Say that all items have been added."""
        self._closed = True
        self._more.set()

    def stop(self, reason: str) -> None:
        """Stop rendering and sending."""
        self.stopped = reason
        self._room.set()
        self._more.set()
