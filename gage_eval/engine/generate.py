"""generate: the answers to all requests of a stage, each asked once whatever happens.

Rows are worked in chunks. A chunk is rendered in a thread; what earlier processes of the same action logged and what
other runs already hold is taken from there; the rest is asked by as many workers as the endpoint takes. Rows that ask
the same are asked once. An answer is in the write-ahead log before its slot is freed; a finished chunk is committed to
the store (first wins) and leaves memory; a part whose chunks are all there is put together in row order.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.canonical import encode
from gage_eval.client.limiter import CombinedLimiter
from gage_eval.client.types import Request, RequestRefused, Response
from gage_eval.engine.episodes import EPISODES, Outcome, as_call, episode_name, response_key
from gage_eval.engine.job import Chunk, Item, Job, Tally, WorkGone, chunk_rows
from gage_eval.engine.refusals import Refusals
from gage_eval.engine.rows import chunk_tables, outcomes_in, outcomes_of
from gage_eval.engine.wal import LogIndex, LogWriter, index_logs
from gage_eval.errors import BudgetSpent, GageError
from gage_eval.statuses import UNANSWERED
from gage_eval.store import Artifact, Store
from gage_eval.store.responses import pack_keys

Tables: TypeAlias = tuple[int, dict[str, pa.Table]]

MAX_OPEN_CHUNKS = 8
# So many requests are ready before the next chunk is rendered: as many as a fast endpoint takes meanwhile.
READY_ROWS = 1024
# How often progress is told and the budget looked at.
TICK_S = 0.25
# How often a chunk that another process works on is looked at.
POLL_S = 0.2


class Generate:
    """Runs one `Job`; `run` is awaited on the run's loop."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._part_rows = dict(job.source.parts)
        self._replicates = job.source.replicates
        self._rows = sum(self._part_rows.values())
        self.tally = Tally(total=self._rows * self._replicates)
        self._ready: deque[Item] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._exhausted = False
        self._open: set[Chunk] = set()
        self._parts_left: dict[int, int] = {}
        self._lock = asyncio.Lock()
        self._commits: set[asyncio.Future[None]] = set()
        # Calls under way by response key: an equal one waits for the answer instead of asking for it.
        self._asking: dict[str, asyncio.Future[None]] = {}
        self._began = time.monotonic()
        # Rows that were not there from the start.
        self._settled = 0
        # Chunks with errors stay here: one in the store would stand in the way of the next try.
        self._held: dict[tuple[int, int], Tables] = {}
        self.statuses: Counter[str] = Counter()
        self._log: LogWriter
        self._logged: LogIndex
        self._refusals: Refusals
        limiter = job.backend.limiter
        self._slot = limiter if job.pool is None else CombinedLimiter(job.pool, limiter)
        # What the run's budget says once it has kept a row from being sent.
        self._spent: str | None = None
        limits = [job.backend.max_concurrency, self.tally.total or 1]
        limits += [job.max_inflight] if job.max_inflight else []
        self._width = min(limits) if job.pool is None else min(*limits, job.pool.cap)
        # Who shares the work takes no more of it than is needed to stay busy.
        self._low = 2 * self._width if job.claims else max(READY_ROWS, 2 * self._width)

    async def run(self) -> Tally:
        """Answer everything and write every part.

        Raises:
            EndpointFailed: the endpoint cannot go on; what was answered is in the log.
            BudgetSpent: the run's limits are reached; what was under way was answered, and all is in the log.
            WorkGone: another process finished the same action; its answers are in the store.
        """
        job = self.job
        self._logged = await asyncio.to_thread(index_logs, job.log_folder)
        self._log = LogWriter(job.log_folder)
        self._refusals = Refusals(answered=bool(len(self._logged)) or job.mended is not None)
        ticker = asyncio.create_task(self._tick())
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._feed())
                for _ in range(self._width):
                    group.create_task(self._work())
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            ticker.cancel()
            # A thread that writes a finished chunk outlives its task: nothing is written once this has returned.
            if self._commits:
                await asyncio.wait(self._commits)
            self._log.close()
            if job.claims is not None:
                job.claims.close()
        self._report()
        if self._spent is not None:
            raise BudgetSpent(self._spent)
        return self.tally

    # --- chunks come in

    async def _feed(self) -> None:
        left: list[Chunk] = []
        for part, rows in self._part_rows.items():
            size = chunk_rows(rows, self._rows, self.job.workers)
            chunks = [Chunk(part, start, min(start + size, rows)) for start in range(0, rows, size)]
            self._parts_left[part] = max(1, len(chunks))
            if not rows:
                await self._finish_chunk(Chunk(part, 0, 0))
            left += await self._feed_chunks(chunks)
        # What others claimed: whoever puts the parts together waits for it, or does it when a claim ended undone.
        while left and self._spent is None and self.job.responses is not None:
            await asyncio.sleep(POLL_S)
            left = await self._feed_chunks(left, again=True)
        self._exhausted = True
        self._wake()

    async def _feed_chunks(self, chunks: list[Chunk], *, again: bool = False) -> list[Chunk]:
        """Prepare chunks, in order of their parts; returns those that another process works on."""
        claims = self.job.claims
        taken: list[Chunk] = []
        opened = -1
        for chunk in chunks:
            if claims is not None:
                if not await asyncio.to_thread(claims.take, chunk.name):
                    taken.append(chunk)
                    continue
                if await asyncio.to_thread(self._is_committed, chunk):
                    claims.release(chunk.name)
                    await self._count_chunk(chunk)
                    continue
                if again:
                    # Whoever had it is gone; what it was told is in its log.
                    self._logged = await asyncio.to_thread(index_logs, self.job.log_folder)
            await self._until_room()
            if self._spent is not None:
                return taken
            if opened != chunk.part:
                opened = chunk.part
                table, finished = await asyncio.to_thread(self._open_part, opened)
            items = await asyncio.to_thread(self._prepare, chunk, table, finished)
            self._count_taken(chunk)
            if not items:
                await self._finish_chunk(chunk)
                continue
            self._open.add(chunk)
            self._ready.extend(items)
            self._wake()
        return taken

    def _is_committed(self, chunk: Chunk) -> bool:
        """Whether another process finished this very chunk.

        Raises:
            WorkGone: the whole action is finished, and its chunks may have been cleared away.
        """
        done = any((found.start, found.stop) == (chunk.start, chunk.stop) for found in self.job.wip.chunks(chunk.part))
        if not done and self.job.is_over():
            raise WorkGone
        return done

    async def _until_room(self) -> None:
        while self._spent is None and (len(self._ready) > self._low or len(self._open) >= MAX_OPEN_CHUNKS):
            self._room.clear()
            await self._room.wait()

    def _open_part(self, part: int) -> tuple[pa.Table, dict[str, Outcome]]:
        """The rows of a part and the outcomes that an earlier end of the action and its finished chunks hold."""
        finished: dict[str, Outcome] = {}
        if self.job.mended:
            responses, telemetry = (artifact.read(part) for artifact in self.job.mended)
            kept = outcomes_in({"responses": responses, "response_telemetry": telemetry})
            finished = {key: outcome for key, outcome in kept.items() if outcome.response.status != "error"}
        for _, _, tables in self._chunks(part):
            finished.update(outcomes_in(tables))
        return self.job.source.read(part), finished

    def _chunks(self, part: int) -> Iterator[tuple[int, int, dict[str, pa.Table]]]:
        """(start, stop, tables) of the finished chunks of a part, whoever committed them."""
        try:
            for chunk in self.job.wip.chunks(part):
                yield chunk.start, chunk.stop, chunk.tables()
        except FileNotFoundError as error:
            raise WorkGone from error

    def _prepare(self, chunk: Chunk, table: pa.Table, finished: dict[str, Outcome]) -> list[Item]:
        """Render a chunk and take what is answered already; the items left are to be asked."""
        job = self.job
        chunk.requests = job.source.render(table.slice(chunk.start, chunk.stop - chunk.start))
        bodies = [encode(job.backend.body(as_call(request))) for request in chunk.requests]
        chunk.keys = [
            response_key(job.model_identity, body, request.replicate, episode_name(request))
            for request, body in zip(chunk.requests, bodies, strict=True)
        ]
        chunk.outcomes = self._stored(chunk.keys, finished)
        firsts: dict[str, int] = {}
        for i, key in enumerate(chunk.keys):
            if chunk.outcomes[i] is None and (first := firsts.setdefault(key, i)) != i:
                chunk.repeats.append((i, first))
        chunk.left = len(firsts)
        return [Item(chunk, i, chunk.requests[i], bodies[i], key) for key, i in firsts.items()]

    def _stored(self, keys: list[str], finished: dict[str, Outcome]) -> list[Outcome | None]:
        """Outcomes this action committed or logged (single calls), and those other runs hold."""
        outcomes = [finished.get(key) for key in keys]
        if len(self._logged):
            for i, key in enumerate(keys):
                payload = self._logged.get(key) if outcomes[i] is None else None
                if payload is not None:
                    outcomes[i] = Outcome(Response.from_bytes(payload), source="log")
        if self.job.reuse and not self.job.mended:
            wanted = [key for key, outcome in zip(keys, outcomes, strict=True) if outcome is None]
            found = outcomes_of(self.job.store, self.job.model_identity, wanted)
            if found:
                for i, key in enumerate(keys):
                    if outcomes[i] is None:
                        outcomes[i] = found.get(key)
        return outcomes

    def _count_taken(self, chunk: Chunk) -> None:
        if any(outcome is not None for outcome in chunk.outcomes):
            self._refusals.answered()
        for outcome in chunk.outcomes:
            if outcome is not None:
                self.tally.done += 1
                if outcome.source == "log":
                    self.tally.replayed += 1
                else:
                    self.tally.reused += 1

    # --- items go through

    async def _work(self) -> None:
        while (item := await self._next()) is not None:
            episode = EPISODES.get(item.request.kind)
            try:
                if episode is None:
                    outcome = await self._answer(item.request, item.body, item.key)
                else:
                    outcome = await episode(_EpisodeCalls(self), item.request)
            except BudgetSpent as error:
                self._stop(str(error))
                return
            await self._settle(item, outcome)

    def _stop(self, reason: str) -> None:
        """Send nothing more: what is under way is answered, and what waits to be sent again is dropped."""
        self._spent = reason
        self.job.backend.limiter.stop(reason)
        self._room.set()
        self._wake()

    async def _next(self) -> Item | None:
        while not self._ready:
            if self._exhausted or self._spent is not None:
                return None
            self._more.clear()
            self._room.set()
            await self._more.wait()
        item = self._ready.popleft()
        if len(self._ready) <= self._low:
            self._room.set()
        return item

    async def call(self, request: Request) -> Response:
        """One call of an episode: from the log, or asked and logged."""
        body = encode(self.job.backend.body(request))
        key = response_key(self.job.model_identity, body, request.replicate)
        payload = self._logged.get(key)
        if payload is not None:
            self.tally.replayed += 1
            return Response.from_bytes(payload)
        return (await self._answer(request, body, key)).response

    async def _answer(self, request: Request, body: bytes, key: str) -> Outcome:
        """The answer to a call: that of an equal one of this step, or else the model's."""
        while (same := self._asking.get(key)) is not None:
            await asyncio.wait((same,))
        payload = self._log.get(key)
        if payload is not None:
            self.tally.reused += 1
            return Outcome(Response.from_bytes(payload), source="repeated")
        settled = self._asking[key] = asyncio.get_running_loop().create_future()
        try:
            return Outcome(await self._ask(request, body, key))
        finally:
            del self._asking[key]
            settled.set_result(None)

    async def _ask(self, request: Request, body: bytes, key: str) -> Response:
        """The model's answer, in the log before its slot is freed."""
        job, tally = self.job, self.tally
        async with self._slot:
            spent = job.budget.spent()
            if spent is not None:
                raise BudgetSpent(spent)
            tally.in_flight += 1
            try:
                response = await self._call(request, body)
                if response.status not in UNANSWERED:
                    self._log.append(key, response.to_bytes())
            finally:
                tally.in_flight -= 1
            job.budget.spend(response, job.price)
        tally.sent += response.attempts
        tally.retried += max(0, response.attempts - 1)
        return response

    async def _call(self, request: Request, body: bytes) -> Response:
        """The backend's response; a refusal that is the row's own is an error of the row."""
        with self._refusals.call():
            try:
                response = await self.job.backend.call(request, body)
            except RequestRefused as refusal:
                return await self._refusals.judge(refusal)
            if response.status not in UNANSWERED:
                self._refusals.answered()
            return response

    async def _settle(self, item: Item, outcome: Outcome) -> None:
        chunk = item.chunk
        chunk.outcomes[item.position] = outcome
        chunk.left -= 1
        self._settled += 1
        self.tally.done += 1
        self.tally.errors += outcome.response.status == "error"
        if chunk.left == 0:
            self._repeat(chunk)
            # The worker goes on to its next request; the group waits for the commit.
            self._group.create_task(self._finish_chunk(chunk))

    def _repeat(self, chunk: Chunk) -> None:
        """Give the rows of a chunk that ask the same as an earlier one its outcome."""
        for position, first in chunk.repeats:
            outcome = chunk.outcomes[first]
            assert outcome is not None
            chunk.outcomes[position] = replace(outcome, source="repeated")
            self.tally.errors += outcome.response.status == "error"
        self.tally.done += len(chunk.repeats)
        self.tally.reused += len(chunk.repeats)

    # --- chunks and parts go out

    def _finish_chunk(self, chunk: Chunk) -> Coroutine[None, None, None]:
        """Start the commit at once, so that it is waited for even when the step ends before the task does."""
        commit = asyncio.get_running_loop().run_in_executor(None, self._commit_chunk, chunk)
        self._commits.add(commit)
        commit.add_done_callback(self._committed)
        return self._finished(chunk, commit)

    def _committed(self, commit: asyncio.Future[None]) -> None:
        self._commits.discard(commit)
        if not commit.cancelled():
            # Raised where it is waited for; nobody does once the step has failed otherwise.
            commit.exception()

    async def _finished(self, chunk: Chunk, commit: asyncio.Future[None]) -> None:
        await asyncio.shield(commit)
        self._open.discard(chunk)
        self._room.set()
        await self._count_chunk(chunk)

    async def _count_chunk(self, chunk: Chunk) -> None:
        """One chunk less to wait for; the last one of a part has it put together."""
        async with self._lock:
            self._parts_left[chunk.part] -= 1
            if self._parts_left[chunk.part] == 0 and self.job.responses is not None:
                await asyncio.to_thread(self._assemble, chunk.part)

    def _commit_chunk(self, chunk: Chunk) -> None:
        outcomes = [outcome for outcome in chunk.outcomes if outcome is not None]
        assert len(outcomes) == len(chunk.requests), "a chunk was finished with rows missing"
        tables = chunk_tables(chunk.requests, chunk.keys, outcomes)
        if any(outcome.response.status == "error" for outcome in outcomes):
            self._held[chunk.part, chunk.start] = (chunk.stop, tables)
        else:
            self.job.wip.put_chunk(chunk.part, chunk.start, chunk.stop, tables)
            if self.job.claims is not None:
                self.job.claims.release(chunk.name)
        chunk.requests, chunk.keys, chunk.outcomes = [], [], []

    def _assemble(self, part: int) -> None:
        """Write a part from its chunks: those that stand in the store, whoever committed them."""
        pieces = list(self._chunks(part))
        pieces += [(key[1], *self._held.pop(key)) for key in sorted(self._held) if key[0] == part]
        stop, responses, telemetry = -1, [], []
        for start, end, tables in sorted(pieces, key=lambda piece: (piece[0], -piece[1])):
            if end <= stop:
                continue
            if start > max(stop, 0):
                raise WorkGone
            skip = max(0, stop - start) * self._replicates
            responses.append(tables["responses"].slice(skip))
            telemetry.append(tables["response_telemetry"].slice(skip))
            stop = end
        if stop < self._part_rows[part]:
            raise WorkGone
        table = pa.concat_tables(responses)
        counted = pc.value_counts(table["status"]).to_pylist()
        self.statuses.update({entry["values"]: entry["counts"] for entry in counted})
        assert self.job.responses is not None
        assert self.job.telemetry is not None
        self.job.responses.write(part, table)
        self.job.telemetry.write(part, pa.concat_tables(telemetry))

    # --- telling

    def _wake(self) -> None:
        self._more.set()

    async def _tick(self) -> None:
        while True:
            self._report()
            spent = self.job.budget.spent()
            if spent is not None:
                # Those who wait to send again would else find out when their time has come.
                self.job.backend.limiter.stop(spent)
            await asyncio.sleep(TICK_S)

    def _report(self) -> None:
        tally = self.tally
        elapsed = time.monotonic() - self._began
        self.job.progress(
            tally.done,
            tally.total,
            rows_per_s=round(self._settled / elapsed, 1) if elapsed > 0 else 0.0,
            in_flight=tally.in_flight,
            retried=tally.retried,
            reused=tally.reused + tally.replayed,
            errors=tally.errors,
        )


class _EpisodeCalls:
    """The `Calls` an episode asks through."""

    def __init__(self, generate: Generate) -> None:
        self._generate = generate

    async def generate(self, request: Request) -> Response:
        return await self._generate.call(request)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that ended the group: one meant for the user if there is one."""
    leaves = list(_leaves(group))
    return next((error for error in leaves if isinstance(error, GageError)), leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def index_answers(store: Store, model_identity: str, responses: Artifact) -> None:
    """Enter an artifact's answers into the response index, so that other runs find them."""
    # Packed part by part: the keys of a million rows are 32 MB, as Python's texts and tuples ten times as much.
    keys, places = [pack_keys([])], [np.empty((0, 2), np.int32)]
    for part in responses.parts:
        table = responses.read(part.index, columns=["response_key", "status"])
        rows = np.flatnonzero(~pc.is_in(table["status"], pa.array(sorted(UNANSWERED))).to_numpy())
        keys.append(pack_keys(table["response_key"].take(rows).to_pylist()))
        places.append(np.column_stack((np.full(len(rows), part.index), rows)).astype(np.int32))
    store.responses.add(model_identity, responses.id, np.concatenate(keys), np.concatenate(places))
