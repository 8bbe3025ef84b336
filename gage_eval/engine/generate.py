"""generate: answer all asks of a stage. Equal requests are sent once, also after a crash.

    feeding    cuts the asks into chunks and renders a chunk when it is due
    known      finds the answers in the logs of earlier processes and in other runs
    refusals   decides whether a refused request is an error of its row or of the run
    ready      holds the requests to send
    asking     sends a request, or shares the answer to an equal one; logs the answer before it frees the permit
    assembly   commits answered chunks to the store (the first one wins) and writes complete parts in order

`Generate` connects them. Its workers, as many as the endpoint's permits, take items from the queue and send them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

from gage_eval.base.errors import BudgetSpent, GageError
from gage_eval.engine.asking import Asker
from gage_eval.engine.assembly import Assembly
from gage_eval.engine.episodes import Outcome
from gage_eval.engine.feeding import Feeder
from gage_eval.engine.job import Item, Job, Tally
from gage_eval.engine.known import KnownAnswers
from gage_eval.engine.loops import with_loop_noted
from gage_eval.engine.ready import MAX_OPEN_CHUNKS, ReadyQueue
from gage_eval.engine.refusals import Refusals
from gage_eval.engine.shared_log import SharedLog
from gage_eval.engine.wal import LogWriter

# The next chunk is rendered when fewer requests are ready: as many as a fast endpoint answers during rendering.
READY_REQUESTS = 1024
# How often progress is reported and the budget checked.
TICK_S = 0.25


class Generate:
    """Runs one `Job`; `run` is awaited on the run's loop.

    Args:
        job: the step.

    Attributes:
        tally: what the step did so far.
        statuses: responses written, by status.
    """

    def __init__(self, job: Job) -> None:
        self.tally = Tally(total=sum(asks for _, asks in job.source.parts))
        self._job = job
        limits = [job.backend.limiter.cap, self.tally.total or 1]
        limits += [job.max_inflight] if job.max_inflight else []
        self._width = min(limits) if job.pool is None else min(*limits, job.pool.cap)
        ahead = (job.prefetch_factor or 2) * self._width
        self._queue = ReadyQueue(max(0 if job.prefetch_factor else READY_REQUESTS, ahead), MAX_OPEN_CHUNKS)
        self._assembly = Assembly(job)
        self._began = time.monotonic()
        # Requests that were answered since then.
        self._finished = 0

    @property
    def statuses(self) -> Counter[str]:
        return self._assembly.statuses

    async def run(self) -> Tally:
        """Answer everything and write every part.

        Raises:
            EndpointFailed: the endpoint cannot answer any more; the answers so far are in the log.
            BudgetSpent: a limit of the run is reached; requests in flight were answered, and all answers are logged.
            SupersededByOtherRun: another process finished the same action; its answers are in the store.
        """
        job = self._job
        known = await asyncio.to_thread(KnownAnswers, job)
        log = job.answers.log = LogWriter(job.log_folder)
        shared = SharedLog(log, job.wip)
        # In a store that is a folder, the log itself is in the store.
        if not job.wip.is_local:
            shared.start()
        refusals = Refusals(answered=known.any_answer)
        feeder = Feeder(job, known, self._queue, self._assembly, refusals, self.tally)
        asker = Asker(job, log, known, refusals, self.tally)
        ticker = asyncio.create_task(self._tick())
        finished = False
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(feeder.run())
                for _ in range(self._width):
                    group.create_task(self._work(asker, group))
            finished = self._queue.stopped is None and not self.tally.errors
        except BaseExceptionGroup as failures:
            raise _first_failure(failures) from None
        finally:
            ticker.cancel()
            # After this, no thread writes any more.
            await self._assembly.finish()
            log.close()
            if shared.started:
                await asyncio.to_thread(shared.close, finished=finished)
        self._report()
        if self._queue.stopped is not None:
            raise BudgetSpent(self._queue.stopped)
        return self.tally

    async def _work(self, asker: Asker, group: asyncio.TaskGroup) -> None:
        queue = self._queue
        while (item := queue.take() or await queue.next()) is not None:
            try:
                outcome = await asker.answer(item)
            except BudgetSpent as error:
                # Requests in flight are answered; those that wait for a retry are dropped.
                self._job.backend.limiter.stop(str(error))
                self._queue.stop(str(error))
                return
            self._record(item, outcome, group)

    def _record(self, item: Item, outcome: Outcome, group: asyncio.TaskGroup) -> None:
        chunk, tally = item.chunk, self.tally
        outcome = with_loop_noted(outcome)
        self._finished += 1
        tally.done += 1
        if outcome.response.status == "error":
            tally.errors += 1
        self._job.watch.answered(item.request, outcome)
        if chunk.record_outcome(item.position, outcome):
            repeated = chunk.repeat_outcomes()
            for (position, _), repeat in zip(chunk.repeats, repeated, strict=True):
                self._job.watch.answered(chunk.requests[position], repeat)
            tally.done += len(repeated)
            tally.reused += len(repeated)
            tally.errors += sum(repeat.response.status == "error" for repeat in repeated)
            # The worker goes on to its next request; the group waits for the commit.
            group.create_task(self._assembly.commit(chunk, when_stored=self._queue.chunk_done))

    async def _tick(self) -> None:
        while True:
            self._report()
            spent = self._job.budget.spent()
            if spent is not None:
                # Requests that wait for a retry would notice it only at their next attempt.
                self._job.backend.limiter.stop(spent)
            await asyncio.sleep(TICK_S)

    def _report(self) -> None:
        tally = self.tally
        elapsed = time.monotonic() - self._began
        self._job.progress(
            tally.done,
            tally.total,
            rows_per_s=round(self._finished / elapsed, 1) if elapsed > 0 else 0.0,
            in_flight=tally.in_flight,
            retried=tally.retried,
            reused=tally.reused + tally.replayed,
            errors=tally.errors,
        )


def _first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that ended a group of tasks: preferably one with a message for the user."""
    leaves = list(_leaves(group))
    return next((error for error in leaves if isinstance(error, GageError)), leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
