"""Assembly: store finished chunks, and write a part once all of its chunks are stored."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.tables import RESPONSE_TELEMETRY, RESPONSES
from gage_eval.engine.job import Chunk, Job, SupersededByOtherRun
from gage_eval.engine.rows import as_telemetry, chunk_tables
from gage_eval.store import parquet_bytes

Tables: TypeAlias = tuple[int, dict[str, pa.Table]]


class Assembly:
    """Commits chunks in threads and writes parts in the order of their asks.

    Attributes:
        statuses: responses written, by status.
    """

    def __init__(self, job: Job) -> None:
        self.statuses: Counter[str] = Counter()
        self._job = job
        self._asks = dict(job.source.parts)
        self._chunks_left: dict[int, int] = {}
        self._lock = asyncio.Lock()
        self._commits: set[asyncio.Future[None]] = set()
        # Chunks with errors stay here: one in the store would prevent the next try.
        self._held: dict[tuple[int, int], Tables] = {}
        # Chunks that are a whole part, until it is written, as tables and as Parquet: neither is made again.
        self._whole: dict[int, dict[str, tuple[pa.Table, bytes | None]]] = {}

    def expect(self, part: int, chunks: int) -> None:
        """Set how many chunks a part has. Call it before the part's first chunk is committed."""
        self._chunks_left[part] = chunks

    def commit(self, chunk: Chunk, *, when_stored: Callable[[], None] = lambda: None) -> Coroutine[None, None, None]:
        """Start the commit of an answered chunk at once; the coroutine waits for it, then counts the chunk.

        `finish` waits for the commit even if a failed step never awaits the coroutine.

        Args:
            chunk: with all outcomes, which are then freed.
            when_stored: called as soon as the chunk is in the store.
        """
        commit = asyncio.get_running_loop().run_in_executor(None, self._put, chunk)
        self._commits.add(commit)
        commit.add_done_callback(self._committed)
        return self._counted(chunk, commit, when_stored)

    async def finish(self) -> None:
        """Wait for running commits: their threads outlive a cancelled task."""
        if self._commits:
            await asyncio.wait(self._commits)

    def _committed(self, commit: asyncio.Future[None]) -> None:
        self._commits.discard(commit)
        if not commit.cancelled():
            # Awaiting the commit raises it. A failed step does not await it: fetch it to avoid asyncio's warning.
            commit.exception()

    async def _counted(self, chunk: Chunk, commit: asyncio.Future[None], when_stored: Callable[[], None]) -> None:
        await asyncio.shield(commit)
        when_stored()
        async with self._lock:
            self._chunks_left[chunk.part] -= 1
            if self._chunks_left[chunk.part] == 0:
                await asyncio.to_thread(self._write, chunk.part)

    def _put(self, chunk: Chunk) -> None:
        job = self._job
        outcomes = [outcome for outcome in chunk.outcomes if outcome is not None]
        assert len(outcomes) == len(chunk.requests), "a finished chunk lacks answers"
        user_price = None if job.user is None else job.user.price
        tables = chunk_tables(chunk.requests, chunk.keys, outcomes, job.price, user_price)
        if any(outcome.response.status == "error" for outcome in outcomes):
            self._held[chunk.part, chunk.start] = (chunk.stop, tables)
        else:
            stored = {name: parquet_bytes(table) for name, table in tables.items()}
            is_first = job.wip.put_chunk(chunk.part, chunk.start, chunk.stop, stored)
            if is_first and len(outcomes) == self._asks[chunk.part]:
                self._whole[chunk.part] = {name: (table, stored[name]) for name, table in tables.items()}
        chunk.requests, chunk.keys, chunk.outcomes = [], [], []

    def _write(self, part: int) -> None:
        """Write a part from the chunks in the store and those held in memory."""
        whole = self._whole.pop(part, None)
        if whole is None:
            pieces = list(self._job.finished_chunks(part))
            pieces += [(key[1], *self._held.pop(key)) for key in sorted(self._held) if key[0] == part]
            made = _put_together(pieces, self._asks[part])
            whole = {"responses": (made[0], None), "response_telemetry": (made[1], None)}
        counts = pc.value_counts(whole["responses"][0]["status"]).to_pylist()
        self.statuses.update({entry["values"]: entry["counts"] for entry in counts})
        self._job.responses.write(part, *whole["responses"])
        self._job.telemetry.write(part, *whole["response_telemetry"])


def _put_together(pieces: Iterable[tuple[int, int, dict[str, pa.Table]]], asks: int) -> tuple[pa.Table, pa.Table]:
    """The responses and telemetry of a part, from chunks in any order.

    Args:
        pieces: (start, stop, tables) of its chunks. Ranges overlap where processes cut the part differently.
        asks: number of asks of the part.

    Raises:
        SupersededByOtherRun: an ask is in no chunk.
    """
    stop, responses, telemetry = 0, [RESPONSES.empty()], [RESPONSE_TELEMETRY.empty()]
    for start, end, tables in sorted(pieces, key=lambda piece: (piece[0], -piece[1])):
        if end <= stop:
            continue
        if start > stop:
            raise SupersededByOtherRun
        responses.append(tables["responses"].slice(stop - start))
        telemetry.append(as_telemetry(tables["response_telemetry"]).slice(stop - start))
        stop = end
    if stop < asks:
        raise SupersededByOtherRun
    return pa.concat_tables(responses), pa.concat_tables(telemetry)
