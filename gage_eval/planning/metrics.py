"""From the metrics of a resolved task to those that score."""

from collections.abc import Sequence

from gage_eval.config.resolve import ResolvedTask
from gage_eval.metrics import BoundMetric
from gage_eval.planning.specs import ScoreSpec
from gage_eval.scorecards.card import CardRule, card_rule, score_key


def score_spec(task: ResolvedTask, metrics: tuple[BoundMetric, ...], known: frozenset[str] = frozenset()) -> ScoreSpec:
    """What auto_eval does for a task.

    Args:
        task: the task.
        metrics: its metrics.
        known: names of metrics that samples may use for other tasks.
    """
    given = task.task
    return ScoreSpec(given.task_id, metrics, max_unscored_share=given.max_unscored_share, known=known)


def task_card(task: ResolvedTask, metrics: Sequence[BoundMetric]) -> CardRule | None:
    """How the task's score cards are made, None without an answer type."""
    answer_type, profile = task.task.answer_type, task.profile
    if answer_type is None or profile is None:
        return None
    keys = [
        score_key(metric.metric_id, pipeline.name, value_key, len(metric.value_keys))
        for metric in metrics
        for pipeline in metric.filters
        for value_key in metric.value_keys
    ]
    types = {metric.metric_id: metric.implementation for metric in metrics}
    return card_rule(answer_type, keys, profile, types, owner=f"task '{task.task.task_id}': ")
