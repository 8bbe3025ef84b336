"""From the metrics of a resolved task to those that score."""

from collections.abc import Sequence

from gage_eval.config.check import ResolvedTask
from gage_eval.config.models import MetricSpec, ParseFieldSpec, PipelineConfig
from gage_eval.contract.card import CardRule, card_rule, score_key
from gage_eval.metrics import BoundMetric, bind
from gage_eval.metrics.normalization import NormalizationConfig
from gage_eval.metrics.parse_schema import ParseField, ParseSchema
from gage_eval.stages.specs import ScoreSpec


def score_spec(task: ResolvedTask, known: frozenset[str] = frozenset()) -> ScoreSpec:
    """What auto_eval does for a task; ``known`` are names of metrics that samples may use for other tasks.

    Raises:
        InputError: a metric's parameters are wrong, or it reads a field that the task does not parse.
    """
    given = task.task
    normalization = task.profile.normalization if task.profile else None
    return ScoreSpec(
        given.task_id,
        tuple(bound(metric, given.parse_schema, normalization) for metric in task.metrics),
        max_unscored_share=given.max_unscored_share,
        known=known,
    )


def metric_names(config: PipelineConfig) -> frozenset[str]:
    """Ids and implementations of all metrics of a config."""
    every = [*config.metrics, *(metric for task in config.tasks for metric in task.metric_overrides)]
    return frozenset(name for metric in every for name in (metric.metric_id, metric.implementation))


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


def bound(
    spec: MetricSpec, parsed: Sequence[ParseFieldSpec] = (), normalization: NormalizationConfig | None = None
) -> BoundMetric:
    """A metric of a config, ready to score.

    Raises:
        InputError: its parameters are wrong.
    """
    fields = tuple(ParseField(item.field, item.type, tuple(item.values)) for item in parsed)
    return bind(
        spec.implementation,
        dict(spec.params),
        metric_id=spec.metric_id,
        aggregation=spec.aggregation,
        filters=list(spec.filters) or None,
        on_missing_field=spec.on_missing_field,
        value_key=spec.value_key,
        cluster_field=spec.cluster_field,
        weight_field=spec.weight_field,
        slices=spec.slices,
        normalization=normalization,
        parse_schema=ParseSchema(fields) if fields else None,
    )
