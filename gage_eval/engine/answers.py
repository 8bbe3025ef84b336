"""The answers that the running steps of one run share, so that no step sends a request that another one has sent."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from gage_eval.engine.wal import LogWriter
from gage_eval.models.client.types import Response


class RunAnswers:
    """State that the generate steps of a run share. Only `step` may be used outside the run's event loop.

    Attributes:
        under_way: calls in flight by response key, with the future that equal calls wait for, if there are any.
        steps_ended: how many steps have ended. Their answers are in the store.
    """

    def __init__(self) -> None:
        self.under_way: dict[str, asyncio.Future[None] | None] = {}
        self.steps_ended = 0
        self._steps: list[StepAnswers] = []

    @contextmanager
    def step(self) -> Iterator["StepAnswers"]:
        """Context of a step, until its answers are committed. Any thread may enter it."""
        step = StepAnswers(self)
        try:
            yield step
        finally:
            # In this order: a call that does not find the step any more must see that the store has its answers.
            self.steps_ended += 1
            self._steps.remove(step)

    def settled(self, key: str) -> "asyncio.Future[None]":
        """A future for the call in flight under a key. Equal calls wait for it and are not sent."""
        future = self.under_way[key]
        if future is None:
            future = self.under_way[key] = asyncio.get_running_loop().create_future()
        return future

    def join(self, step: "StepAnswers") -> None:
        """Make `get` search a step's log too."""
        self._steps.append(step)

    def get(self, key: str) -> Response | None:
        """An answer that a running step has logged."""
        # A copy, because other threads begin and end steps.
        for step in tuple(self._steps):
            payload = None if step.log is None else step.log.get(key)
            if payload is not None:
                return Response.from_bytes(payload)
        return None


class StepAnswers:
    """One step's share of the answers of its run.

    Attributes:
        run: those of all steps.
        log: where the step writes its answers; None before it begins.
    """

    def __init__(self, run: RunAnswers | None = None) -> None:
        self.run = run or RunAnswers()
        self.log: LogWriter | None = None
        self.run.join(self)
