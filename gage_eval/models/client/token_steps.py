"""The tokens of an answer with their log-probabilities, in the forms in which engines and endpoints give them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gage_eval.base.canonical import decode
from gage_eval.models.client.types import Response, without_surrogates

LOGPROBS_PARAMETER = "token_logprobs"
"""The sampling parameter that stores each token and the runner-up."""

NEAR_TIE = 0.1
"""Two tokens whose log-probabilities in one run differ by less than this many nats are a near tie: the arithmetic of
another batch or another engine may choose the other one."""


@dataclass(frozen=True, slots=True)
class Step:
    """A token of an answer.

    Attributes:
        token: its text.
        known: log-probabilities by token, of the chosen one and of those that came with it.
    """

    token: str
    known: Mapping[str, float]

    def as_row(self) -> dict[str, Any]:
        """The token and its runner-up as the table of telemetry stores them (`tables.TOKEN`)."""
        others = [(value, token) for token, value in self.known.items() if token != self.token]
        value, token = max(others, default=(None, None))
        return {
            "token": self.token, "logprob": self.known.get(self.token), "other": token, "other_logprob": value,
        }  # fmt: skip

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Step":
        """The step that a row of the table stores."""
        known = {row["token"]: row["logprob"], row["other"]: row["other_logprob"]}
        return cls(row["token"], _numbers(known))


def steps_in(logprobs: Any) -> list[Step]:
    """The tokens in an answer's log-probabilities, as OpenAI's chat API or its completions give them.

    Args:
        logprobs: the JSON value or its text. Anything else holds no tokens.
    """
    logprobs = decode(logprobs) if isinstance(logprobs, str) else logprobs
    if not isinstance(logprobs, Mapping):
        return []
    if isinstance(content := logprobs.get("content"), list):
        return [_of_chat(entry) for entry in content if isinstance(entry, Mapping)]
    tokens, values, top = (logprobs.get(name) or [] for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not (isinstance(tokens, list) and isinstance(values, list) and len(tokens) == len(values)):
        return []
    others = top if isinstance(top, list) and len(top) == len(tokens) else [{}] * len(tokens)
    return [
        Step(str(token), _numbers({**(more if isinstance(more, Mapping) else {}), token: value}))
        for token, value, more in zip(tokens, values, others, strict=True)
    ]


def store_tokens(response: Response, params: Mapping[str, Any]) -> None:
    """Move the log-probabilities of an answer to its tokens, if its parameters ask for these.

    Args:
        response: its log-probabilities stay where the parameters ask for ``logprobs`` too.
        params: of the request, over those of the backend.
    """
    if params.get(LOGPROBS_PARAMETER) is None or response.logprobs is None:
        return
    steps = steps_in(response.logprobs)
    response.tokens = without_surrogates([step.as_row() for step in steps]) or None
    if steps and not params.get("logprobs"):
        response.logprobs = None


def _of_chat(entry: Mapping[str, Any]) -> Step:
    top = entry.get("top_logprobs")
    listed = [other for other in top if isinstance(other, Mapping)] if isinstance(top, list) else []
    known = {str(other.get("token")): other.get("logprob") for other in listed}
    token = str(entry.get("token", ""))
    return Step(token, _numbers({**known, token: entry.get("logprob")}))


def _numbers(values: Mapping[Any, Any]) -> dict[str, float]:
    """The finite ones; minus infinity is none."""
    return {
        str(token): float(value)
        for token, value in values.items()
        if token is not None and type(value) in (int, float) and abs(value) < 1e9 and not math.isnan(value)
    }
