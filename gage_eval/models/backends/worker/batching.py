"""Group waiting requests into batches with equal settings and similar lengths, so that little is padded."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
_GATHER_S = 0.005


@dataclass(frozen=True, slots=True)
class QueuedItem(Generic[ItemT, ResultT]):
    """An item on its way.

    Attributes:
        item: the work to compute.
        settings: items of one batch have equal ones.
        length: tokens; what is padded to the longest of a batch.
        result: gets the item's result.
    """

    item: ItemT
    settings: Hashable
    length: int
    result: "asyncio.Future[ResultT]"


class Batcher(Generic[ItemT, ResultT]):
    """Computes items in batches, one batch at a time, in a separate thread.

    Args:
        compute: results of a batch in its order; called in the thread.
        batch_size: items of a batch at most.
        is_too_large: whether an error means that a smaller batch may do.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[ItemT]], Sequence[ResultT]],
        batch_size: int,
        is_too_large: Callable[[Exception], bool],
    ) -> None:
        self._compute = compute
        self._size = batch_size
        self._is_too_large = is_too_large
        self._waiting: list[QueuedItem[ItemT, ResultT]] = []
        self._round: list[QueuedItem[ItemT, ResultT]] = []
        self._runner: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1)

    async def run(self, item: ItemT, settings: Hashable, length: int) -> ResultT:
        """The result of one item."""
        waiting: QueuedItem[ItemT, ResultT] = QueuedItem(
            item, settings, length, asyncio.get_running_loop().create_future()
        )
        self._waiting.append(waiting)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        return await waiting.result

    async def _run(self) -> None:
        # What arrives together is batched together.
        await asyncio.sleep(_GATHER_S)
        while batch := self._next():
            await self._one(batch)

    def _next(self) -> list[QueuedItem[ItemT, ResultT]]:
        """The longest items of a round, with settings like the longest one's: what runs out of memory does so first.

        Items that arrive in the meantime wait for the next round. Otherwise, longer items could delay a short one
        forever.
        """
        left = [item for item in self._round if not item.result.done()]
        if not left:
            waiting, self._waiting = self._waiting, []
            left = sorted((item for item in waiting if not item.result.done()), key=lambda item: -item.length)
        chosen = [item for item in left if item.settings == left[0].settings][: self._size]
        taken = set(map(id, chosen))
        self._round = [item for item in left if id(item) not in taken]
        return chosen

    async def _one(self, batch: list[QueuedItem[ItemT, ResultT]]) -> None:
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._thread, self._compute, [waiting.item for waiting in batch])
        except Exception as error:  # noqa: BLE001 - each item's caller gets it
            if len(batch) > 1 and self._is_too_large(error):
                self._size = max(1, len(batch) // 2)
                self._round = [*batch, *self._round]
                return
            for item in batch:
                if not item.result.done():
                    item.result.set_exception(error)
            return
        for item, result in zip(batch, results, strict=True):
            if not item.result.done():
                item.result.set_result(result)
