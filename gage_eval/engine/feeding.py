"""Feeding: cut the asks of every part into chunks and render each chunk when it is due."""

import asyncio

from gage_eval.base.canonical import encode
from gage_eval.base.errors import InputError
from gage_eval.base.statuses import UNANSWERED
from gage_eval.engine.assembly import Assembly
from gage_eval.engine.episodes import EPISODES, Outcome, episode_name, kind_of_calls, response_key, with_body
from gage_eval.engine.job import Chunk, Item, Job, PartSource, Tally, chunks_of
from gage_eval.engine.known import KnownAnswers
from gage_eval.engine.ready import ReadyQueue
from gage_eval.engine.refusals import Refusals
from gage_eval.models.backends.base import check_served
from gage_eval.models.client.types import RenderFailure, Request, Response


class Feeder:
    """Fills the queue with the requests that have no answer yet, chunk by chunk."""

    def __init__(
        self,
        job: Job,
        known: KnownAnswers,
        queue: ReadyQueue,
        assembly: Assembly,
        refusals: Refusals,
        tally: Tally,
    ) -> None:
        self._job = job
        self._known = known
        self._refusals = refusals
        self._queue = queue
        self._assembly = assembly
        self._tally = tally
        self._any_made = False
        self._any_remembered = False

    async def run(self) -> None:
        """Feed every chunk."""
        for part, chunks in chunks_of(self._job.source.parts, self._job.most_in_chunk).items():
            self._assembly.expect(part, max(1, len(chunks)))
            if not chunks:
                await self._assembly.commit(Chunk(part, 0, 0))
            await self._feed(part, chunks)
        self._queue.close()

    async def _feed(self, part: int, chunks: list[Chunk]) -> None:
        """Prepare the chunks of a part."""
        opened: tuple[PartSource, dict[str, Outcome]] | None = None
        for chunk in chunks:
            await self._queue.until_room()
            if self._queue.stopped is not None:
                return
            if opened is None:
                opened = await asyncio.to_thread(self._open, part)
            source, finished = opened
            items = await asyncio.to_thread(self._prepare, chunk, source, finished)
            self._tally.count_known(chunk.outcomes)
            first = next((i for i, known in enumerate(chunk.outcomes) if known and _is_answer(known)), None)
            if first is not None:
                self._refusals.answered()
                self._remember(chunk.requests[first])
            if items:
                self._queue.put_chunk(items)
            else:
                await self._assembly.commit(chunk)

    def _remember(self, request: Request) -> None:
        """Tell the backend a request with a known answer, the first one."""
        if not self._any_remembered and request.kind not in EPISODES and request.unasked is None:
            self._any_remembered = True
            self._job.backend.remember(request, encode(self._job.backend.body(request)))

    def _open(self, part: int) -> tuple[PartSource, dict[str, Outcome]]:
        """Open the source of a part's requests, and its known outcomes."""
        return self._job.source.open(part), self._known.finished(part)

    def _prepare(self, chunk: Chunk, source: PartSource, finished: dict[str, Outcome]) -> list[Item]:
        """Render a chunk and fill in known answers. Returns the items that must be asked."""
        job = self._job
        requests = source.render(chunk.start, chunk.stop)
        kinds = {request.kind for request in requests}
        check_served(job.backend, set(map(kind_of_calls, kinds)))
        made = [with_body(job.backend.body, request) for request in requests]
        chunk.requests, bodies = [request for request, _ in made], [encode(body) for _, body in made]
        self._check_asked(chunk)
        chunk.keys = [
            response_key(job.model_identity, body, request.draw, episode_name(request))
            for request, body in zip(chunk.requests, bodies, strict=True)
        ]
        ended = job.answers.run.steps_ended
        chunk.outcomes = [
            known if request.unasked is None else _unasked(request.unasked)
            for request, known in zip(chunk.requests, self._known.find(chunk.keys, finished), strict=True)
        ]
        for request, outcome in zip(chunk.requests, chunk.outcomes, strict=True):
            if outcome is not None:
                job.watch.answered(request, outcome)
        firsts = chunk.find_repeats()
        return [Item(chunk, i, chunk.requests[i], bodies[i], key, ended) for key, i in firsts.items()]

    def _check_asked(self, chunk: Chunk) -> None:
        """Let a failed prompt or plug-in cost its row only where it works on other rows.

        Raises:
            InputError: it failed on every row so far.
        """
        failed = [request.unasked for request in chunk.requests if request.unasked is not None]
        self._any_made = self._any_made or len(failed) < len(chunk.requests)
        if failed and not self._any_made:
            raise InputError(failed[0].message)


def _is_answer(outcome: Outcome) -> bool:
    return outcome.response.status not in UNANSWERED


def _unasked(why: RenderFailure) -> Outcome:
    return Outcome(Response(why.status, error_kind=why.kind, errors=[why.message]))
