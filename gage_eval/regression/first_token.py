"""Where two answers to one prompt part: at a near tie of two tokens, or where one of them is clearly likelier."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gage_eval.base.canonical import decode
from gage_eval.models.client.token_steps import NEAR_TIE, Step, steps_in


@dataclass(frozen=True)
class Parting:
    """Where two answers part.

    Attributes:
        position: how many tokens they share.
        tokens: the first token of each that the other has not; None for an answer that ends there.
        gap: by how many nats the two differ within a run, the smaller one of both; None where no run stored both.
    """

    position: int
    tokens: tuple[str | None, str | None]
    gap: float | None

    @property
    def is_near_tie(self) -> bool | None:
        """Whether it is a near tie; None where that is not known."""
        return None if self.gap is None else self.gap < NEAR_TIE

    @property
    def text(self) -> str:
        """``token 17: " yes" or " no", 0.03 nats apart``."""
        here, there = (repr(token) if token is not None else "the end" for token in self.tokens)
        apart = "" if self.gap is None else f", {self.gap:.3g} nats apart"
        return f"token {self.position + 1}: {here} or {there}{apart}"


def steps_of(response: Mapping[str, Any], telemetry: Mapping[str, Any]) -> list[Step]:
    """The tokens of an answer with what is stored of them; empty where nothing is.

    Args:
        response, telemetry: rows of those tables.
    """
    stored = telemetry.get("tokens")
    return [Step.of_row(row) for row in stored] if stored else steps_in(response.get("logprobs"))


def equal_at_start(a: Sequence[object], b: Sequence[object]) -> int:
    """How many items at the beginning are equal."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def parting(a: Sequence[Step], b: Sequence[Step]) -> Parting | None:
    """Where two answers part; None if they have the same tokens, or the tokens of one are not stored."""
    if not a or not b:
        return None
    shared = equal_at_start(*([step.token for step in run] for run in (a, b)))
    if shared == len(a) == len(b):
        return None
    steps = [run[shared] if shared < len(run) else None for run in (a, b)]
    here, there = (None if step is None else step.token for step in steps)
    gaps = [
        abs(step.known[here] - step.known[there])
        for step in steps
        if step is not None and here is not None and there is not None and {here, there} <= step.known.keys()
    ]
    return Parting(shared, (here, there), min(gaps, default=None))


def likelihood_change(a: Mapping[str, Any], b: Mapping[str, Any]) -> float | None:
    """The largest change of a choice's log-likelihood between two runs, in nats; None where a row holds none."""
    sums = [_likelihoods(response) for response in (a, b)]
    if not sums[0] or len(sums[0]) != len(sums[1]):
        return None
    return float(max(abs(x - y) for x, y in zip(*sums, strict=True)))


def _likelihoods(response: Mapping[str, Any]) -> list[float]:
    stored = response.get("logprobs")
    logprobs = decode(stored) if isinstance(stored, str) else stored
    choices = logprobs.get("choices") if isinstance(logprobs, Mapping) else None
    sums = [choice.get("ll") for choice in choices or () if isinstance(choice, Mapping)]
    known = [float(value) for value in sums if isinstance(value, int | float)]
    return known if len(known) == len(sums) else []
