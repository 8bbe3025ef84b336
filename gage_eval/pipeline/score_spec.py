"""From the metrics of a resolved task to a `ScoreSpec`."""

from collections.abc import Sequence

from gage_eval.config.resolve import ResolvedTask
from gage_eval.pipeline.execution_spec import ExecutionSpec
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.scorecards.card import CardRule, card_rule, score_key


def score_spec(
    task: ResolvedTask,
    metrics: tuple[BoundMetric, ...],
    known: frozenset[str] = frozenset(),
    execution: ExecutionSpec | None = None,
) -> ScoreSpec:
    """The spec of auto_eval for a task.

    Args:
        task: the task.
        metrics: its metrics.
        known: names of metrics that samples may use for other tasks.
        execution: how its programs are run.
    """
    config = task.task
    return ScoreSpec(config.task_id, metrics, config.max_unscored_share, known, execution)


def task_card(task: ResolvedTask, metrics: Sequence[BoundMetric]) -> CardRule | None:
    """How the task's score cards are made; None without an answer type."""
    answer_type, profile = task.task.answer_type, task.profile
    if answer_type is None or profile is None:
        return None
    scales = {
        score_key(metric.metric_id, pipeline.name, value_key, len(metric.value_keys)): metric.scale(value_key)
        for metric in metrics
        for pipeline in metric.filters
        for value_key in metric.value_keys
    }
    lower = [key for key, scale in scales.items() if scale.higher_is_better is False]
    types = {metric.metric_id: metric.implementation for metric in metrics}
    owner = f"task '{task.task.task_id}': "
    preset = profile.scorers.get(answer_type)
    return card_rule(
        answer_type,
        list(scales),
        preset,
        profile.version,
        types,
        less_is_better=lower,
        owner=owner,
        is_chosen=task.task.scoring_profile is not None,
    )
