"""The answers that the steps of one run get while they run, so that an equal request of another step is not sent."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from gage_eval.client.types import Response
from gage_eval.engine.wal import LogWriter


class RunAnswers:
    """What the generate steps of one run share; used from the run's loop only, but for `step`.

    Attributes:
        under_way: calls under way by response key: an equal one waits for the answer instead of asking for it.
        steps_ended: how many steps have ended. Their answers are in the store.
    """

    def __init__(self) -> None:
        self.under_way: dict[str, asyncio.Future[None]] = {}
        self.steps_ended = 0
        self._steps: list[StepAnswers] = []

    @contextmanager
    def step(self) -> Iterator["StepAnswers"]:
        """Around a step, until its answers are committed; another thread than the loop's may enter it."""
        step = StepAnswers(self)
        try:
            yield step
        finally:
            self._steps.remove(step)
            self.steps_ended += 1

    def join(self, step: "StepAnswers") -> None:
        """Have `get` look into a step's log too."""
        self._steps.append(step)

    def get(self, key: str) -> Response | None:
        """An answer that a running step has logged."""
        for step in tuple(self._steps):
            payload = step.logged(key)
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

    def get(self, key: str) -> Response | None:
        """An answer that this step or another running one has logged."""
        return self.run.get(key)

    def logged(self, key: str) -> bytes | None:
        """What the step has logged under a key."""
        try:
            return None if self.log is None else self.log.get(key)
        except FileNotFoundError:
            # The step has ended meanwhile and cleared its log away.
            return None
