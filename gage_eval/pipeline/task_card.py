"""From the metrics and the scoring profile of a task to the rule of its score cards."""

from collections.abc import Sequence

from gage_eval.config.resolve import ResolvedTask
from gage_eval.report.headline import named
from gage_eval.report.summary import MetricNumber
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.scorecards.card import CardRule, card_rule, score_keys


def task_card(task: ResolvedTask, metrics: Sequence[BoundMetric], quoted: str | None = None) -> CardRule | None:
    """How the task's score cards are made; None without an answer type.

    Args:
        task: the task.
        metrics: its metrics.
        quoted: the number that the suite's card quotes. If the task has it, it is the primary score.
    """
    answer_type, profile = task.task.answer_type, task.profile
    if answer_type is None or profile is None:
        return None
    values = [(x, pipeline.name, key) for x in metrics for pipeline in x.filters for key in x.value_keys]
    numbers = [
        MetricNumber(metric_id=metric.metric_id, filter=filter_name, value_key=key, aggregation="mean")
        for metric, filter_name, key in values
    ]
    keys = score_keys(numbers)
    lower = [key for key, (x, _, own) in zip(keys, values, strict=True) if x.scale(own).higher_is_better is False]
    types = {metric.metric_id: metric.implementation for metric in metrics}
    owner = f"task '{task.task.task_id}': "
    preset = profile.scorers.get(answer_type)
    if preset is not None and (headline := named(numbers, quoted)):
        preset = preset.model_copy(update={"primary_metric": keys[numbers.index(headline[0])]})
    return card_rule(
        answer_type,
        keys,
        preset,
        profile.version,
        types,
        less_is_better=lower,
        owner=owner,
        is_chosen=task.task.scoring_profile is not None,
    )
