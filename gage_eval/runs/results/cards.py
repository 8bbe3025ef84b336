"""Score cards and canonical answers of single samples, from their stored responses and scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gage_eval.base.field_paths import MISSING, resolve
from gage_eval.scoring.scorecards.answer import AnswerMeta, CanonicalAnswer
from gage_eval.scoring.scorecards.card import CardRule, ScoreCard, score_key


@dataclass(frozen=True)
class Cards:
    """How the cards of a task's samples are made.

    Attributes:
        rule: the rule of the task's cards.
        keys: (metric id, filter, value key) → the key of that score, in the order of the metrics.
    """

    rule: CardRule
    keys: Mapping[tuple[str, str | None, str], str]

    @classmethod
    def of(cls, card: ScoreCard, numbers: Sequence[Mapping[str, Any]]) -> "Cards":
        """The cards' rule and keys, from the task's card and the rows of its metrics table."""
        whole = [(row["metric_id"], row["filter"], row["value_key"]) for row in numbers if row["slice_field"] is None]
        values = {name: len({key for other, _, key in whole if other == name}) for name, _, _ in whole}
        rule = CardRule(
            str(card.answer_type),
            card.primary_metric,
            card.pass_threshold,
            higher_is_better=card.higher_is_better,
        )
        return cls(rule, {measure: score_key(*measure, values[measure[0]]) for measure in whole})

    def card(
        self, responses: Sequence[Mapping[str, Any]], evaluated: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> ScoreCard:
        """The card of one sample, averaged over replicates.

        Args:
            responses: the sample's responses.
            evaluated: the sample's score rows by metric id, each with filter, status, values, reason and explanation.
        """
        scores: dict[str, float | None] = {}
        explain = ""
        tags = [str(response["status"]) for response in responses if response["status"] != "ok"]
        for (metric_id, filter_name, value_key), key in self.keys.items():
            rows = [row for row in evaluated.get(metric_id, ()) if row["filter"] == filter_name]
            scores[key] = _mean(row["values"][value_key] for row in rows if value_key in row["values"])
            tags += [row["status"] for row in rows if _went_wrong(row)]
            if key == self.rule.primary and len(rows) == 1:
                explain = rows[0]["explanation"] or ""
        return self.rule.card(scores, tags, explain)

    def answer(self, task_id: str, sample: Mapping[str, Any], response: Mapping[str, Any]) -> CanonicalAnswer:
        """A response as a canonical answer; ``sample`` carries its ``eval_result``."""
        label = resolve("label", sample=sample)
        targets = resolve("targets", sample=sample)
        return CanonicalAnswer.model_validate(
            {
                "task_id": task_id,
                "sample_id": sample["id"],
                "answer_type": self.rule.answer_type,
                "prediction": {
                    "text": response.get("answer"),
                    "extracted": self._extracted(sample["eval_result"], response["replicate"]),
                    "replicate": response["replicate"],
                },
                "ground_truth": {
                    "label": None if label is MISSING else label,
                    "references": [] if targets is MISSING else targets,
                },
                "meta": AnswerMeta(pass_threshold=self.rule.threshold),
            }
        )

    def _extracted(self, evaluated: Mapping[str, Sequence[Mapping[str, Any]]], replicate: int) -> str | None:
        """What the primary metric extracted from the answer."""
        for (metric_id, filter_name, _), key in self.keys.items():
            if key == self.rule.primary:
                rows = evaluated.get(metric_id, ())
                values = (r["extracted"] for r in rows if r["filter"] == filter_name and r["replicate"] == replicate)
                return next(values, None)
        return None


def _went_wrong(row: Mapping[str, Any]) -> bool:
    """Whether a score row adds a tag. If the response is missing, its own tag says so."""
    return bool(row["status"] != "scored" and row["reason"] != "unanswered")


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None
