"""Verdicts that are one of some labels: read from the probabilities of the judge's first token, or from JSON."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.scoring.metrics.verdicts import Verdict

SettledForm: TypeAlias = Literal["labels", "schema", "text"]
"""A form of verdicts: probabilities of labels, JSON by a schema, or text that a parser reads."""

_VERSION = 3
# The most that OpenAI's API and vLLM's default give.
_TOP = 20
# With less probability on the labels there is no verdict.
_LEAST_MASS = 0.5
# A sum above this is more than rounding.
_MOST_MASS = 1.01


@dataclass(frozen=True)
class LabelVerdicts:
    """Reads verdicts that are one of some labels.

    Attributes:
        form: ``labels`` or ``schema``.
        labels: with the score of each, None where they have none.
    """

    form: Literal["labels", "schema"]
    labels: Mapping[str, float | None]

    @property
    def name(self) -> str:
        """For messages."""
        return self.form

    @property
    def params(self) -> dict[str, JsonValue]:
        """Sampling parameters of the judge that its answers are read by."""
        if self.form == "labels":
            return {"max_new_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": _TOP}
        properties: dict[str, JsonValue] = {
            "reasoning": {"type": "string"},
            "verdict": {"type": "string", "enum": [*self.labels]},
        }
        schema: dict[str, JsonValue] = {
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        }
        named: dict[str, JsonValue] = {"name": "verdict", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    def identity(self) -> JsonValue:
        """Its part of keys."""
        return {"verdict": self.form, "labels": [[name, score] for name, score in self.labels.items()], "v": _VERSION}

    def read_row(self, row: Mapping[str, Any]) -> Verdict | None:
        """The verdict in a row of responses; None where there is none."""
        return self._most_probable(row["logprobs"]) if self.form == "labels" else self._of_json(row["answer"])

    def _most_probable(self, logprobs: str | None) -> Verdict | None:
        """The label that is most probable, and the mean score over labels."""
        mass = dict.fromkeys(self.labels, 0.0)
        for token, probability in _first_token(logprobs):
            name = next((name for name in mass if token and name.casefold().startswith(token)), None)
            if name is not None:
                mass[name] += probability
        total = math.fsum(mass.values())
        if total > _MOST_MASS:
            return Verdict(unread=f"the probabilities of the judge's labels have the sum {total:.2f}")
        inside = min(1.0, total)
        shares: dict[str, JsonValue] = {name: value / inside if inside else 0.0 for name, value in mass.items()}
        fields: dict[str, JsonValue] = {"probabilities": shares, "outside": 1 - inside}
        if inside < _LEAST_MASS:
            return Verdict(fields=fields, unread=f"{1 - inside:.0%} of the judge's probability is not on a label")
        scores = [score for score in self.labels.values() if score is not None]
        score = math.fsum(s * p / total for s, p in zip(scores, mass.values(), strict=True)) if scores else None
        return Verdict(max(mass, key=lambda name: mass[name]), score, fields)

    def _of_json(self, answer: str | None) -> Verdict | None:
        try:
            value = decode(answer or "")
        except ValueError:
            return None
        name = value.get("verdict") if isinstance(value, Mapping) else None
        return Verdict(name, self.labels[name]) if isinstance(name, str) and name in self.labels else None


def _first_token(logprobs: str | None) -> Iterator[tuple[str, float]]:
    """The candidates of an answer's first token, without the space around them, in small letters."""
    try:
        entry = decode(logprobs or "")["content"][0]
        tops = [(top["token"], top["logprob"]) for top in entry["top_logprobs"] or ()]
        # The chosen token is among them, or less probable; its number may be rounded in another way.
        own = [] if entry["token"] in [token for token, _ in tops] else [(entry["token"], entry["logprob"])]
        # In their order, because sums of floats depend on it.
        candidates = dict.fromkeys([*own, *tops])
    except (ValueError, LookupError, TypeError):
        return
    for token, logprob in candidates:
        if isinstance(token, str) and isinstance(logprob, int | float) and logprob <= 0:
            # No float is as small as some integers of JSON.
            yield token.strip().casefold(), math.exp(max(logprob, -1000.0))
