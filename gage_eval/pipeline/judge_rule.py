"""A metric that decides answers before a judge is asked (`judge_rule` of a task)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue
from gage_eval.pipeline.asks import AnswerKey, AskTable, ChangedAsks, about
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.overrides import eval_configs, named_metrics, unknown_metrics
from gage_eval.scoring.metrics.score_rows import Inputs, RowReader, Rows, score_rows
from gage_eval.store import Artifact, Store


@dataclass(frozen=True)
class JudgeRule:
    """A metric whose values decide answers.

    Attributes:
        metric: reads samples and responses only. The first of its filters and of its numbers counts.
        values: the values that decide; all others, and rows without a value, are left to the judge.
        scale: the scores of the values 0 and 1 as verdicts; None where a value is the score.
        known: names of metrics that samples may use.
    """

    metric: BoundMetric
    values: tuple[float, ...]
    scale: tuple[float, float] | None = None
    known: frozenset[str] = field(default=frozenset(), compare=False)

    def material(self) -> JsonValue:
        """What determines its decisions, except the samples and responses."""
        scale = None if self.scale is None else list(self.scale)
        return {"metric": self.metric.identity()["scores"], "values": sorted(self.values), "scale": scale}

    def overrides(self, samples: Artifact) -> list[str]:
        """The names in samples' ``eval_config`` that no metric has: such samples are left to the judge."""
        named = frozenset().union(*map(named_metrics, eval_configs(samples)))
        return sorted(unknown_metrics(named, self.known))

    def score(self, value: float) -> float:
        """The verdict that a value is."""
        low, high = self.scale or (0.0, 1.0)
        return low + value * (high - low)


class RuleDecisions:
    """The answers of a task that a rule decides, part by part."""

    def __init__(self, rule: JudgeRule, store: Store, inputs: Mapping[str, str]) -> None:
        """Args:
        rule: the metric and the values that decide.
        store: where the inputs are.
        inputs: artifact ids of ``samples`` and ``responses``.
        """
        self._rule = rule
        self._reader = RowReader(store, Inputs.of([rule.metric], inputs, rule.known))
        self._rows = {part.index: part.rows for part in store.artifact(inputs["responses"]).parts}
        self.of = lru_cache(1)(self._of)
        """The score of each decided answer of a part."""

    def _of(self, part: int) -> Mapping[AnswerKey, float]:
        rule = self._rule
        (table,) = score_rows([rule.metric], self._reader, Rows(part, 0, self._rows[part]))
        first, key = rule.metric.filters[0].name, rule.metric.value_keys[0]
        return {
            (row["row_index"], row["replicate"]): rule.score(value)
            for row in table.select(["row_index", "replicate", "filter", "status", "values"]).to_pylist()
            if row["status"] == "scored" and row["filter"] == first
            if (value := dict(row["values"]).get(key)) in rule.values
        }


def undecided(table: AskTable, decisions: RuleDecisions) -> AskTable:
    """Explicit asks; those about answers that a rule decides have no judge."""

    def without_judge(part: int, asks: pa.Table) -> pa.Table:
        decided = about(asks, decisions.of(part))
        for name in ("judge", "binding"):
            at = asks.schema.get_field_index(name)
            values = pc.if_else(decided, pa.scalar(None, pa.string()), asks[name])
            asks = asks.set_column(at, asks.schema.field(at), values)
        return asks

    return ChangedAsks(table, without_judge)
