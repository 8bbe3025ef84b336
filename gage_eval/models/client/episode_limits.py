"""Prices of tokens, and what one episode may use."""

from dataclasses import asdict, dataclass
from typing import Any

# Sums of costs are this exact.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Price:
    """Prices of a backend's tokens, each per million tokens."""

    input: float = 0.0
    output: float = 0.0

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """What tokens cost."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1_000_000


@dataclass(frozen=True)
class EpisodeLimits:
    """What an episode may use. The turn that reaches a limit is the last, and the tools that it calls are not run.

    Attributes:
        tokens: of prompts and answers, as the endpoint counts them.
        cost: in the currency of the price.
        model_s: seconds for which the model answered, in sum. A resumed episode has those that the log has.
        same_calls: how often one call may have the same output.
        rounds_per_turn: rounds of tool calls in one turn of a simulated user.
        price: of the model's tokens.
        task_s: seconds for which the model answered and tools ran, in sum, where the sample bounds them.
    """

    tokens: int | None = None
    cost: float | None = None
    model_s: float | None = None
    same_calls: int | None = None
    rounds_per_turn: int | None = None
    price: Price = Price()
    task_s: float | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What of them is in keys."""
        own = asdict(self)
        # Few samples bound their time; the keys of all others are without it.
        return own if self.task_s is not None else {name: most for name, most in own.items() if name != "task_s"}

    def reached(
        self, prompt_tokens: int, completion_tokens: int, model_s: float, tools_s: float = 0.0
    ) -> tuple[str, str] | None:
        """The kind of limit that an episode has reached, and a sentence; None while it may go on.

        Args:
            prompt_tokens, completion_tokens, model_s, tools_s: of all its turns so far.
        """
        tokens, cost = prompt_tokens + completion_tokens, self.price.of(prompt_tokens, completion_tokens)
        if self.tokens is not None and tokens >= self.tokens:
            return "tokens", f"{tokens:,} tokens were used, and limits.tokens is {self.tokens:,}"
        if self.cost is not None and cost >= self.cost * (1 - _ROUNDING):
            return "cost", f"the answers cost {cost:.4g}, and limits.cost is {self.cost:g}"
        if self.model_s is not None and model_s >= self.model_s:
            return "time", f"the model answered for {model_s:,.1f} s, and limits.model_s is {self.model_s:g}"
        if self.task_s is not None and model_s + tools_s >= self.task_s:
            return "time", f"model and tools took {model_s + tools_s:,.1f} s, and the task gives {self.task_s:g}"
        return None
