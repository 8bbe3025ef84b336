"""The check of auto_eval: the run fails if too many answers have no score, or if none has one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gage_eval.base.errors import RunFailed
from gage_eval.base.stages import StageResult
from gage_eval.base.statuses import EXCUSED, NO_VERDICT, REASONS
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.store import Artifact, Store


def check_scored(env: StageContext, spec: ScoreSpec, result: StageResult) -> None:
    """Stop the run if a metric left too many answers, or all of them, without a score.

    Raises:
        RunFailed: more than ``max_unscored_share``, or a metric scored no row; the scores are kept.
    """
    share = spec.max_unscored_share
    if share is None:
        return
    numbers = _numbers(env.store.artifact(result.outputs["metrics"]))
    for row in numbers:
        if row["unscored"] > share * (row["rows"] + row["unscored"]):
            _check_share(env, spec.task_id, row["metric_id"], share, _UnscoredRows.of(env.store, row))
    refuse_without_score(env.store, spec, result, again=env.judge_command, allowed=share >= 1)


def refuse_without_score(
    store: Store, spec: ScoreSpec, result: StageResult, *, again: str | None = None, allowed: bool = False
) -> None:
    """Refuse a metric that scored no row, because it has no result.

    Latencies may be missing in all rows, as in replayed ones. With ``on_missing_field: ignore``, a metric's field may
    be missing everywhere, if another metric of the task scores something.

    Args:
        store: where the scores are.
        spec: the metrics.
        result: the result of auto_eval.
        again: the command that asks for missing verdicts; None where no run can be resumed.
        allowed: the user allows that no answer has a score.

    Raises:
        RunFailed: a metric scored no row.
    """
    numbers = _numbers(store.artifact(result.outputs["metrics"]))
    alone = not any(row["rows"] for row in numbers)
    by_id = {metric.metric_id: metric for metric in spec.metrics}
    for row in numbers:
        if row["rows"]:
            continue
        unscored = _UnscoredRows.of(store, row)
        reasons = unscored.reasons - {"unanswered"}
        excused = {"not_measured"}
        if by_id[row["metric_id"]].on_missing_field == "ignore" and not alone:
            excused.add("missing_field")
        if allowed:
            excused |= set(REASONS) - EXCUSED
        if not reasons or not reasons <= excused:
            raise _no_score(spec.task_id, row["metric_id"], unscored, again)


def _numbers(metrics: Artifact) -> list[dict[str, Any]]:
    """The first row of each metric and filter over all samples, with the largest ``rows`` of its value keys."""
    by_filter: dict[tuple[str, str | None], dict[str, Any]] = {}
    for row in metrics.table().to_pylist():
        if row["slice_field"] is None:
            first = by_filter.setdefault((row["metric_id"], row["filter"]), row)
            first["rows"] = max(first["rows"], row["rows"])
    return list(by_filter.values())


@dataclass
class _UnscoredRows:
    """The rows of one filter without a score.

    Attributes:
        rows: all score rows of the filter.
        answered: score rows whose response has an answer.
        failed: answered rows whose reason counts for ``max_unscored_share``.
        reasons: the reasons of all rows without a score.
        first: explanation of the first row without a score.
        first_failed: explanation of the first failed row.
    """

    rows: int = 0
    answered: int = 0
    failed: int = 0
    reasons: set[str] = field(default_factory=set)
    first: str = ""
    first_failed: str = ""

    @classmethod
    def of(cls, store: Store, number: Mapping[str, Any]) -> "_UnscoredRows":
        """Read the score rows that a row of the metrics table was computed from."""
        unscored, filter_name = cls(), number["filter"]
        for table in store.artifact(number["scores"]).tables(columns=["filter", "status", "reason", "explanation"]):
            for row in table.to_pylist():
                if row["filter"] == filter_name:
                    unscored._add(row)
        return unscored

    def _add(self, row: Mapping[str, Any]) -> None:
        reason = row["reason"]
        self.rows += 1
        self.answered += reason != "unanswered"
        if row["status"] != "unscored":
            return
        words = _ended(row["explanation"] or reason)
        if not self.reasons - {"unanswered"}:
            # The explanation of an unscored answer says more than that of a missing answer.
            self.first = self.first if reason == "unanswered" and self.first else words
        self.reasons.add(reason)
        if reason not in EXCUSED:
            self.failed += 1
            self.first_failed = self.first_failed or words


def _check_share(env: StageContext, task_id: str, metric_id: str, share: float, unscored: _UnscoredRows) -> None:
    """Refuse too many answers without a score because of the metric: it failed, could not use the answer, or had no
    verdict.

    Other causes do not count: ``max_error_share`` limits rows without an answer, ``on_missing_field`` handles missing
    fields, and latencies may be unmeasured.
    """
    if unscored.failed > share * unscored.answered:
        raise RunFailed(
            f"auto_eval: metric {metric_id} has no score for {unscored.failed:,} of {unscored.answered:,} answers of "
            f"task '{task_id}' ({unscored.failed / unscored.answered:.1%}, more than max_unscored_share {share:.1%}), "
            f"the first because: {unscored.first_failed} The scores are kept; fix the metric or its judge, or raise "
            "the share."
            f"{_judge_again(unscored, env.judge_command)}"
        )


def _judge_again(unscored: _UnscoredRows, again: str | None) -> str:
    """What asks the judge again, where it gave no verdict."""
    return f" {again} asks the judge again where it gave no verdict." if again and unscored.reasons & NO_VERDICT else ""


def _no_score(task_id: str, metric_id: str, unscored: _UnscoredRows, again: str | None) -> RunFailed:
    because = f", the first because: {unscored.first}" if unscored.first else ": it gave no number."
    if "missing_field" in unscored.reasons:
        remedy = (
            "point the metric at a field that the samples have, or set on_missing_field: ignore if no sample is meant "
            "to have it."
        )
    elif unscored.reasons == {"unanswered"}:
        remedy = "fix the cause, then resume the run to ask again."
    else:
        remedy = "fix the metric or what it reads."
    none = "could not score the only answer" if unscored.rows == 1 else f"scored none of the {unscored.rows:,} answers"
    return RunFailed(
        f"auto_eval: metric {metric_id} {none} of task '{task_id}'{because} The scores are kept; {remedy}"
        f"{_judge_again(unscored, again)}"
    )


def _ended(reason: str) -> str:
    return reason if reason.endswith((".", "?", "!")) else f"{reason}."
