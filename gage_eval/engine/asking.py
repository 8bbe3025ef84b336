"""Asking: one call to the model for each different request of a step, logged before its permit is freed."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from itertools import count

from gage_eval.base.canonical import digest, encode
from gage_eval.base.statuses import UNANSWERED
from gage_eval.engine.episodes import EPISODES, Outcome, response_key
from gage_eval.engine.job import Item, Job, Tally
from gage_eval.engine.journal import Diverged, EpisodeCalls, content_of
from gage_eval.engine.known import KnownAnswers
from gage_eval.engine.refusals import Refusals
from gage_eval.engine.wal import LogWriter
from gage_eval.models.client.limiter import CombinedLimiter
from gage_eval.models.client.tools import EpisodeState
from gage_eval.models.client.types import Request, RequestRefused, Response
from gage_eval.models.client.watch import watch_retries

# Attempts of an episode in one process that may diverge from their journal.
_ATTEMPTS = 2


class Asker:
    """Answers items."""

    def __init__(self, job: Job, log: LogWriter, known: KnownAnswers, refusals: Refusals, tally: Tally) -> None:
        self._job = job
        self._refusals = refusals
        self._log = log
        self._known = known
        self._tally = tally
        limiter = job.backend.limiter
        self._limiter = limiter if job.pool is None else CombinedLimiter(job.pool, limiter)
        self._run = job.answers.run
        self._user: Asker | None = None
        if (user := job.user) is not None:
            user_job = replace(
                job,
                backend=user.backend,
                model_identity=user.model_identity,
                pool=user.pool,
                price=user.price,
                user=None,
            )
            self._user = Asker(user_job, log, known, Refusals(answered=known.any_answer), tally)

    def answer(self, item: Item) -> Awaitable[Outcome]:
        """The outcome of one item.

        Raises:
            BudgetSpent: a limit of the run is reached, and the request was not sent.
            EndpointFailed: the endpoint cannot answer any more.
        """
        if item.request.kind in EPISODES:
            return self._episode(item)
        return self._shared(item.request, item.body, item.key, item.steps_ended)

    async def _episode(self, item: Item) -> Outcome:
        """The outcome of an episode. An attempt that diverges from its journal is followed by one more."""
        request, tools = item.request, item.request.tool_set
        episode, ended = EPISODES[request.kind], digest(["ended", item.key])
        if (record := self.record(ended)) is not None:
            return Outcome.from_bytes(record)
        # Why earlier attempts ended, of earlier processes too, and what was said in them.
        sentences: list[str] = []
        said: list[str] = []
        tried = 0
        for attempt in count():
            diverged = digest(["diverged", item.key, attempt])
            if (record := self.record(diverged)) is not None:
                sentences.append(content_of(record))
                said.append(content_of(record, "messages"))
                continue
            if tried == _ATTEMPTS:
                return Outcome(Response("error", error_kind="diverged", errors=sentences, diverged=said))
            tried += 1
            state = EpisodeState() if tools is None else tools.begin()
            state.executor, state.keep = self._job.executor, self._job.store.media.put
            generate = partial(self.generate, attempt=attempt)
            ask_user = None if self._user is None else partial(self._user.generate, attempt=attempt)
            calls = EpisodeCalls(
                self, generate, [item.key, attempt], tools, state, ask_user, is_program=request.agent is not None
            )
            try:
                async with state.exits:
                    outcome = await episode(calls, request)
            except Diverged as error:
                sentences.append(str(error))
                said.append(calls.messages())
                self.write(diverged, encode({"content": sentences[-1], "messages": said[-1]}))
                continue
            if sentences:
                errors = [*sentences, *outcome.response.errors]
                outcome = replace(outcome, response=replace(outcome.response, errors=errors, diverged=said))
            if calls.has_acted and outcome.response.status not in UNANSWERED:
                # Otherwise its tools would act again until the answers around it are there too.
                self.write(ended, outcome.to_bytes())
            return outcome
        raise AssertionError

    async def generate(self, request: Request, attempt: int = 0) -> Response:
        """One call of an episode: from the log, or asked and logged."""
        body = encode(self._job.backend.body(request))
        key = response_key(self._job.model_identity, body, request.draw, f"attempt {attempt}" if attempt else "")
        response = self._known.logged(key)
        if response is not None:
            self._tally.replayed += 1
            return replace(response, call_key=key, source="log")
        outcome = await self._shared(request, body, key)
        return replace(outcome.response, call_key=key, source=outcome.source)

    def earlier_record(self, key: str) -> bytes | None:
        """See `Journal`."""
        return self._known.record(key)

    def record(self, key: str) -> bytes | None:
        """See `Journal`."""
        return self._known.record(key) or self._log.get(key)

    def write(self, key: str, record: bytes) -> None:
        """See `Journal`."""
        self._log.append(key, record)

    async def _shared(self, request: Request, body: bytes, key: str, steps_ended: int | None = None) -> Outcome:
        """The answer to an equal call of this run if there is one, else the model's.

        Args:
            request, body, key: the call.
            steps_ended: how many steps of the run had ended when the store was last searched for the key.
        """
        run = self._run
        while key in run.under_way:
            await asyncio.wait((run.settled(key),))
        response = run.get(key)
        if response is not None:
            self._tally.reused += 1
            return Outcome(response, source="repeated")
        run.under_way[key] = None
        try:
            if steps_ended is not None and steps_ended != run.steps_ended:
                # A step that ended in the meantime has put its answers into the store.
                stored = await asyncio.to_thread(self._known.from_other_runs, [key])
                if stored:
                    self._tally.reused += 1
                    return stored[key]
            return Outcome(await self._send(request, body, key))
        finally:
            waited_for = run.under_way.pop(key)
            if waited_for is not None:
                waited_for.set_result(None)

    async def _send(self, request: Request, body: bytes, key: str) -> Response:
        """Send the request. The answer is in the log before its permit is freed.

        A refusal that concerns only this row becomes the row's error.
        """
        job, tally, refusals, limiter = self._job, self._tally, self._refusals, self._limiter
        if not limiter.take():
            await limiter.turn()
        try:
            if job.budget.limited:
                job.budget.admit()
            watch_retries(partial(job.watch.retried, request))
            tally.in_flight += 1
            refusals.call_begins()
            try:
                response = await job.backend.call(request, body)
                if response.status not in UNANSWERED:
                    refusals.answered()
                    self._log.append(key, response.to_bytes())
            except RequestRefused as refusal:
                response = await refusals.judge(refusal)
            finally:
                refusals.call_ends()
                tally.in_flight -= 1
            job.budget.spend(response, job.price)
        finally:
            limiter.release()
        attempts = response.attempts
        tally.sent += attempts
        if attempts > 1:
            tally.retried += attempts - 1
        return response
