"""The limits of a run: tokens, money, time."""

import time
from collections.abc import Callable

from gage_eval.base.errors import BudgetSpent
from gage_eval.models.client.episode_limits import Price
from gage_eval.models.client.types import Response

# Sums of costs are this exact.
_ROUNDING = 1e-9


class Budget:
    """Counts the tokens, cost and time of a run; used from the run's loop only.

    Reused answers of earlier runs cost nothing. Answers in flight when the budget is spent are still kept.

    Args:
        tokens: of prompts and answers, as the endpoints count them.
        cost: in the currency of the prices.
        wall_s: seconds from now.
        now: a monotonic clock in seconds.

    Attributes:
        limited: whether any limit is set. Without one, no request needs to be admitted.
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

    def spend(self, response: Response, price: Price) -> None:
        """Count the answer to a request that was sent."""
        prompt, answer = response.prompt_tokens or 0, response.completion_tokens or 0
        self.prompt_tokens += prompt
        self.completion_tokens += answer
        if price.input or price.output:
            self.cost += price.of(prompt, answer)

    @property
    def tokens(self) -> int:
        """Tokens of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens

    def admit(self) -> None:
        """Check that another request may be sent.

        Raises:
            BudgetSpent: a limit is reached.
        """
        spent = self.spent()
        if spent is not None:
            raise BudgetSpent(spent)

    def spent(self) -> str | None:
        """The limit that is reached, as a sentence; None while there is budget left."""
        if not self.limited:
            return None
        if self._tokens is not None and self.tokens >= self._tokens:
            return f"limits.tokens ({self._tokens:,}) is reached: {self.tokens:,} tokens were used"
        if self._cost is not None and self.cost >= self._cost * (1 - _ROUNDING):
            return f"limits.cost ({self._cost:g}) is reached: the answers cost {self.cost:.4g}"
        if self._wall_s is not None and (elapsed := self._now() - self._began) >= self._wall_s:
            return f"limits.wall_s ({self._wall_s:g}) is reached: {elapsed:,.0f} s have passed"
        return None
