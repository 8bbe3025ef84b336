"""Calls through a limiter at an endpoint that takes so many at a time; simulated time knows no slow machine."""

import asyncio
import random
import selectors
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.retry import Action, Failure, RetryPolicy

# What a request takes on its way there, and a refusal on its way back.
_WAY_S = 0.0007


class _Clock(selectors.SelectSelector):
    """Waits in no time: the clock is put forward instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += max(timeout or 0.0, 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._simulated = _Clock()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now


@dataclass
class Endpoint:
    """An endpoint, and the calls made at it.

    Attributes:
        latency_s: of an answer, give or take a tenth.
        capacity: calls at a time; more are refused at once.
        retry_after_s: what a refusal asks for; None where it asks for nothing.
        noise: share of the calls that are refused whatever the load.
        capacities: by time, what the capacity changes to.
    """

    latency_s: float = 0.05
    capacity: int = 10**9
    retry_after_s: float | None = None
    noise: float = 0.0
    capacities: Mapping[float, int] = field(default_factory=dict)
    refused: int = 0
    _busy: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(1))

    def serve(self, rows: int, limiter: Limiter, workers: int | None = None) -> float:
        """Have so many rows answered; returns the simulated seconds it took."""
        loop = _Loop()
        try:
            for moment, capacity in self.capacities.items():
                loop.call_at(moment, setattr, self, "capacity", capacity)
            return loop.run_until_complete(self._serve(rows, limiter, workers or limiter.cap))
        finally:
            loop.close()

    async def _serve(self, rows: int, limiter: Limiter, workers: int) -> float:
        left = iter(range(rows))
        policy = RetryPolicy(max_attempts=100)

        async def work() -> None:
            for _ in left:
                async with limiter:
                    await self._call(limiter, policy)

        await asyncio.gather(*(work() for _ in range(workers)))
        return asyncio.get_running_loop().time()

    async def _call(self, limiter: Limiter, policy: RetryPolicy) -> None:
        attempts = 0
        while not await self._attempt():
            attempts += 1
            limiter.overloaded()
            refusal = Failure(Action.RETRY, "rate_limited", "429", self.retry_after_s)
            wait = policy.wait_s(attempts, 0.0, refusal, self._random.random())
            assert wait is not None
            await limiter.pause(wait)
        limiter.answered()

    async def _attempt(self) -> bool:
        await asyncio.sleep(_WAY_S)
        if self._busy >= self.capacity or self._random.random() < self.noise:
            self.refused += 1
            await asyncio.sleep(_WAY_S)
            return False
        self._busy += 1
        await asyncio.sleep(self.latency_s * self._random.uniform(0.9, 1.1))
        self._busy -= 1
        return True
