"""Asking: one call to the model for each different request of a step, logged before its permit is freed."""

import asyncio
import json
from collections.abc import Awaitable
from functools import partial

from gage_eval.base.canonical import encode
from gage_eval.base.statuses import UNANSWERED
from gage_eval.engine.episodes import EPISODES, Outcome, response_key, tool_key
from gage_eval.engine.job import Item, Job, Tally
from gage_eval.engine.known import KnownAnswers
from gage_eval.engine.refusals import Refusals
from gage_eval.engine.wal import LogWriter
from gage_eval.models.client.limiter import CombinedLimiter
from gage_eval.models.client.types import Request, RequestRefused, Response, Tool, Tools
from gage_eval.models.client.watch import watch_retries


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

    def answer(self, item: Item) -> Awaitable[Outcome]:
        """The outcome of one item.

        Raises:
            BudgetSpent: a limit of the run is reached, and the request was not sent.
            EndpointFailed: the endpoint cannot answer any more.
        """
        episode = EPISODES.get(item.request.kind)
        if episode is not None:
            return episode(_EpisodeCalls(self, item.key, item.request.tool_set), item.request)
        return self._shared(item.request, item.body, item.key, item.steps_ended)

    async def generate(self, request: Request) -> Response:
        """One call of an episode: from the log, or asked and logged."""
        body = encode(self._job.backend.body(request))
        key = response_key(self._job.model_identity, body, request.draw)
        response = self._known.logged(key)
        if response is not None:
            self._tally.replayed += 1
            return response
        return (await self._shared(request, body, key)).response

    async def run_tool(self, key: str, tool: Tool | None, name: str, arguments: str) -> str:
        """One call of a tool by an episode: from the log, or run and logged."""
        output = self._known.tool_output(key)
        if output is None:
            output = json.dumps({"error": f"there is no output of {name}"}) if tool is None else await tool(arguments)
            self._log.append(key, encode({"content": output}))
        return output

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


class _EpisodeCalls:
    """The `Calls` of one episode."""

    def __init__(self, asker: Asker, key: str, tools: Tools | None) -> None:
        self.generate = asker.generate
        self._asker = asker
        self._key = key
        self._tools = tools
        self._tools_run = 0

    async def run_tool(self, name: str, arguments: str) -> str:
        """See `Calls`."""
        key = tool_key(self._key, self._tools_run, name, arguments)
        self._tools_run += 1
        tool = None if self._tools is None else self._tools.get(name)
        return await self._asker.run_tool(key, tool, name, arguments)
