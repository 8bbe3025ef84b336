"""A second judge, which is asked about the answers of which the first ones are not sure (`second_judge` of a task)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.base.statuses import NO_VERDICT
from gage_eval.scoring.metrics.verdicts import PAIR_OUTCOMES

# What another verdict, or a repaired parser, may turn into a result.
_NO_VERDICT = NO_VERDICT | {"parser_failed"}


@dataclass(frozen=True)
class SecondJudge:
    """When the second judge is asked.

    Attributes:
        adapter_id: the judge.
        below: where the probability of a first verdict is below this; None where that does not count.
        spread: where the scores of one answer differ by more than this, or verdicts without a score differ.
    """

    adapter_id: str
    below: float | None = None
    spread: float = 0.0

    def material(self) -> JsonValue:
        return {"below": self.below, "spread": self.spread}

    def is_asked(self, verdicts: Sequence[Mapping[str, Any]], *, both_orders: bool) -> bool:
        """Whether the first verdicts on an answer leave it unsure.

        Args:
            verdicts: rows of `tables.JUDGMENTS`.
            both_orders: verdicts in odd slots are about swapped answers.
        """
        if any(row["status"] != "ok" and row["reason"] not in _NO_VERDICT for row in verdicts):
            return False  # A request failed, and is asked again; or the sample's settings are wrong.
        if any(row["status"] != "ok" for row in verdicts):
            return True
        if self.below is not None and any(_probability(row) < self.below for row in verdicts):
            return True
        scores = [row["score"] for row in verdicts]
        if None not in scores and not both_orders:
            return bool(max(scores) - min(scores) > self.spread)
        return len({_said(row, swapped=both_orders and row["slot"] % 2 == 1) for row in verdicts}) > 1


def _probability(row: Mapping[str, Any]) -> float:
    """That of the verdict; 1 where the judge gives none."""
    fields = decode(row["parsed"] or "{}")
    # A parser of one's own may put anything there.
    shares = fields.get("probabilities") if isinstance(fields, dict) else None
    share = shares.get(row["answer"]) if isinstance(shares, dict) else None
    return float(share) if isinstance(share, int | float) else 1.0


def _said(row: Mapping[str, Any], *, swapped: bool) -> float | str:
    """A verdict that can be compared with those on the other order: the first answer's share of a win, if it is one."""
    answer = str(row["answer"]).strip().casefold()
    share = PAIR_OUTCOMES.get(answer)
    if share is None:
        return answer
    return 1 - share if swapped else share
