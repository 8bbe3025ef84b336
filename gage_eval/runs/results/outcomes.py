"""Outcomes of answers (right, wrong, unparsed, truncated, looped, …), computed from a few small columns."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.errors import InputError
from gage_eval.report.metric_names import metric_name
from gage_eval.runs.results.cards import Cards
from gage_eval.scoring.metrics.rows import rows_of_filter, values_of
from gage_eval.scoring.metrics.scale import DEFAULT, Scale

Outcome: TypeAlias = Literal["wrong", "unparsed", "truncated", "looped", "refused", "error", "unscored"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

AnswerKind: TypeAlias = Literal[
    "error", "refused", "truncated", "looped", "unparsed", "unscored", "wrong", "right", "scored"
]
ANSWER_KINDS: tuple[AnswerKind, ...] = get_args(AnswerKind)
"""What an answer is, the failures first; an answer of several kinds is of the first. ``scored``: nothing is right or
wrong by the measure."""

_OF_SCORE = frozenset({"wrong", "unparsed", "unscored"})
_STATUS = frozenset({"truncated", "looped", "refused", "error"})


@dataclass(frozen=True)
class Measure:
    """A value that each answer of a task has.

    Attributes:
        metric_id, filter, value_key: which.
        name: its shown name, such as ``exact_match,strict-match``.
        scale: what its values mean.
        threshold: the pass threshold of the task's score card; without one, an answer needs full credit.
        aggregation: which of the measure's numbers over all samples; None for the answers' values alone.
    """

    metric_id: str
    filter: str | None
    value_key: str
    name: str
    scale: Scale = DEFAULT
    threshold: float | None = None
    aggregation: str | None = None

    @property
    def passes(self) -> float | None:
        """An answer that is worse is wrong; None where no answer is right or wrong."""
        return self.scale.perfect if self.threshold is None else self.threshold

    def is_right(self, value: float) -> bool | None:
        """Whether an answer passes; None where no answer is right or wrong."""
        return None if self.passes is None else replace(self.scale, perfect=self.passes).is_right(value)

    def of_filter(self, scores: pa.Table) -> pa.Table:
        """Those rows of a metric's `tables.SCORES` that belong to the measure's filter."""
        return rows_of_filter(scores, self.filter)

    def values(self, scores: pa.Table) -> pa.Array:
        """The measure's value in each row of `tables.SCORES`; null where a row has none."""
        return values_of(scores, self.value_key)


def measures(metrics: Sequence[Mapping[str, Any]], cards: Cards | None = None) -> list[Measure]:
    """The measures of a task's metrics table: that of the score card first, the others in the config's order."""
    by_key: dict[tuple[str, str | None, str], Measure] = {}
    for row in metrics:
        measured = (row["metric_id"], row["filter"], row["value_key"])
        if row["slice_field"] is None and measured not in by_key:
            by_key[measured] = Measure(*measured, name=metric_name(*measured, "mean"), scale=Scale(**row["scale"]))
    if cards is None:
        return list(by_key.values())
    primary = [
        replace(measure, threshold=cards.rule.threshold)
        for measured, measure in by_key.items()
        if cards.keys.get(measured) == cards.rule.primary
    ]
    first = {(measure.metric_id, measure.filter, measure.value_key) for measure in primary}
    return [*primary, *(measure for measured, measure in by_key.items() if measured not in first)]


def needs_scores(outcomes: Collection[str]) -> bool:
    """Whether one of these outcomes depends on a metric. The others depend only on the responses."""
    return not _OF_SCORE.isdisjoint(outcomes)


@dataclass(frozen=True)
class RowFilter:
    """Which samples to read. A sample with several answers matches if one of them matches.

    Attributes:
        ids: only these samples; all when empty.
        outcomes: only samples with an answer of one of these outcomes; all when empty.
        statuses: only samples with an answer of one of these row statuses; all when empty.
        measure: the measure that decides about wrong, unparsed and unscored.
    """

    ids: tuple[str, ...] = ()
    outcomes: frozenset[Outcome] = frozenset()
    statuses: frozenset[str] = frozenset()
    measure: Measure | None = None

    def __post_init__(self) -> None:
        if self.measure is None and needs_scores(self.outcomes):
            raise ValueError(f"{', '.join(sorted(self.outcomes & _OF_SCORE))}: a measure is required")

    @property
    def is_given(self) -> bool:
        """Whether the filter excludes anything."""
        return bool(self.ids) or self.looks_at_answers

    @property
    def looks_at_answers(self) -> bool:
        """Whether the filter depends on responses or scores."""
        return bool(self.outcomes or self.statuses)

    def fitting(self, answers: pa.Table) -> pa.Table:
        """The rows of an `answer_table` that match."""
        keep = pa.repeat(pa.scalar(value=True), answers.num_rows)
        if self.statuses:
            keep = pc.is_in(answers["status"], pa.array(sorted(self.statuses), pa.string()))
        if self.outcomes:
            masks = [outcome_mask(outcome, answers, self.measure) for outcome in sorted(self.outcomes)]
            either = masks[0]
            for mask in masks[1:]:
                either = pc.or_(either, mask)
            keep = pc.and_(keep, either)
        return answers.filter(keep)


def outcome_mask(outcome: Outcome, answers: pa.Table, measure: Measure | None) -> pa.ChunkedArray:
    """Mask of the answers with an outcome.

    Wrong: the answer is unparsed, or its value is worse than what passes.

    Raises:
        InputError: no answer is right or wrong by the measure, or nothing says which value is right: it declares no
            ``bounds`` and has values outside 0..1.
    """
    if outcome in _STATUS:
        return pc.equal(answers["status"], outcome)
    unparsed = pc.fill_null(pc.equal(answers["score_status"], "unparsed"), fill_value=False)
    if outcome == "unparsed":
        return unparsed
    if outcome == "unscored":
        return pc.fill_null(pc.equal(answers["score_status"], "unscored"), fill_value=False)
    assert measure is not None
    scored = pc.fill_null(pc.equal(answers["score_status"], "scored"), fill_value=False)
    values = answers["value"]
    if measure.passes is None:
        raise InputError(f"no answer is right or wrong by metric '{measure.name}'. Name another metric with --metric.")
    less_is_better = measure.scale.higher_is_better is False
    if measure.threshold is None and not measure.scale.declared:
        ends = pc.min_max(values.filter(scored)).as_py()
        if ends["min"] is not None and (ends["min"] < 0 or (ends["max"] > 1 and not less_is_better)):
            raise InputError(
                f"metric '{measure.name}' declares no bounds and has values outside 0..1 (up to {ends['max']:g}, down "
                f"to {ends['min']:g}), so no answer is right or wrong by it. Declare them with @metric(bounds=…), or "
                "name another metric with --metric."
            )
    worse = (pc.greater if less_is_better else pc.less)(values, measure.passes)
    return pc.or_(unparsed, pc.and_(scored, pc.fill_null(worse, fill_value=False)))


def answer_kinds(answers: pa.Table, measure: Measure | None, *, judged: bool = True) -> pa.ChunkedArray:
    """The kind of each answer: one of `ANSWER_KINDS`, or ``skipped`` without a measure.

    Args:
        answers: with the columns status, score_status and value.
        measure: the measure; None before scoring.
        judged: False where other answers of the task have shown that nothing is right or wrong by the measure.
    """
    status = answers["status"]
    if measure is None:
        return pc.if_else(pc.equal(status, "ok"), "scored", status)
    kinds: Any = "scored"
    if judged:
        with suppress(InputError):  # nothing says which value is right
            kinds = pc.if_else(outcome_mask("wrong", answers, measure), "wrong", "right")
    scored = pc.and_(pc.equal(answers["score_status"], "scored"), pc.is_valid(answers["value"]))
    kinds = pc.if_else(pc.fill_null(scored, fill_value=False), kinds, "unscored")
    kinds = pc.if_else(outcome_mask("unparsed", answers, measure), "unparsed", kinds)
    return pc.if_else(pc.is_in(status, pa.array(list(_STATUS))), status, kinds)


def answer_table(responses: pa.Table, scores: pa.Table | None, measure: Measure | None) -> pa.Table:
    """The responses with the score status and value of one measure.

    Args:
        responses: columns of `tables.RESPONSES`, including row_index and replicate.
        scores: row_index, replicate, filter, status and values of `tables.SCORES` of the same part.
        measure: the measure of the values.

    Returns:
        The responses' rows with ``score_status`` and ``value``, which are null without a score row.
    """
    statuses: pa.Array = pa.nulls(responses.num_rows, pa.string())
    values: pa.Array = pa.nulls(responses.num_rows, pa.float64())
    if scores is not None and measure is not None and scores.num_rows:
        scores = measure.of_filter(scores)
        # Null for a response without a score row.
        positions = pc.index_in(_numbers(responses), value_set=_numbers(scores))
        statuses = pc.take(scores["status"].combine_chunks(), positions)
        values = pc.take(measure.values(scores), positions)
    return responses.append_column("score_status", statuses).append_column("value", values)


def _numbers(table: pa.Table) -> pa.Array:
    """A unique number for each (row index, replicate)."""
    rows = pc.shift_left(table["row_index"].cast(pa.int64()), 20)
    return pc.add(rows, table["replicate"].cast(pa.int64())).combine_chunks()
