"""The limits of a run: tokens, money, time."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from gage_eval.base.errors import BudgetSpent
from gage_eval.models.client.types import Response

# How often a request that waits for the other processes of the run looks again.
_LOOK_EVERY_S = 0.05
# Sums of costs are this exact.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Price:
    """Prices of a backend's tokens, each per million tokens."""

    input: float = 0.0
    output: float = 0.0


@dataclass(frozen=True)
class Part:
    """A process's part of a budget that the processes of a run share.

    Attributes:
        tokens, cost: what this process may spend; infinite without such a limit.
        others_tokens, others_cost: what the others have spent.
    """

    tokens: float = math.inf
    cost: float = math.inf
    others_tokens: float = 0.0
    others_cost: float = 0.0


class Budget:
    """Counts the tokens, cost and time of a run; used from the run's loop only.

    Reused answers of earlier runs cost nothing. Answers in flight when the budget is spent are still kept.
    Where several processes carry out the run, `part` is set from time to time (`gage_eval.engine.shared_budget`).

    Args:
        tokens: of prompts and answers, as the endpoints count them.
        cost: in the currency of the prices.
        wall_s: seconds from now.
        now: a monotonic clock in seconds.

    Attributes:
        limited: whether any limit is set. Without one, no request needs to be admitted.
        part: this process's part.
        waiting: requests that wait for a larger part.
    """

    def __init__(
        self,
        *,
        tokens: int | None = None,
        cost: float | None = None,
        wall_s: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens, self._cost, self._wall_s = tokens, cost, wall_s
        self._now = now
        self._began = now()
        self.limited = tokens is not None or cost is not None or wall_s is not None
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cost = 0.0
        self.part = Part()
        self.waiting = 0

    def spend(self, response: Response, price: Price) -> None:
        """Count the answer to a request that was sent."""
        prompt, answer = response.prompt_tokens or 0, response.completion_tokens or 0
        self.prompt_tokens += prompt
        self.completion_tokens += answer
        if price.input or price.output:
            self.cost += (prompt * price.input + answer * price.output) / 1_000_000

    @property
    def tokens(self) -> int:
        """Tokens of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def limits(self) -> tuple[float, float]:
        """The limits of tokens and cost; infinite where there is none."""
        return (
            math.inf if self._tokens is None else self._tokens,
            math.inf if self._cost is None else self._cost,
        )

    @property
    def left_s(self) -> float | None:
        """Seconds left; None without such a limit."""
        return None if self._wall_s is None else max(0.0, self._wall_s - (self._now() - self._began))

    async def admit(self) -> None:
        """Wait until this process may send another request.

        Raises:
            BudgetSpent: a limit is reached.
        """
        while self.limited:
            spent = self.spent()
            if spent is not None:
                raise BudgetSpent(spent)
            if self.tokens < self.part.tokens and self.cost < self.part.cost:
                return
            self.waiting += 1
            try:
                await asyncio.sleep(_LOOK_EVERY_S)
            finally:
                self.waiting -= 1

    def spent(self) -> str | None:
        """The limit that is reached, as a sentence; None while there is budget left."""
        if not self.limited:
            return None
        tokens, cost = self.tokens + int(self.part.others_tokens), self.cost + self.part.others_cost
        if self._tokens is not None and tokens >= self._tokens:
            return f"limits.tokens ({self._tokens:,}) is reached: {tokens:,} tokens were used"
        if self._cost is not None and cost >= self._cost * (1 - _ROUNDING):
            return f"limits.cost ({self._cost:g}) is reached: the answers cost {cost:.4g}"
        if self._wall_s is not None and (elapsed := self._now() - self._began) >= self._wall_s:
            return f"limits.wall_s ({self._wall_s:g}) is reached: {elapsed:,.0f} s have passed"
        return None
