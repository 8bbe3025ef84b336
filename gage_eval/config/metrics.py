"""The metrics of a config, bound to their parameters."""

from collections.abc import Sequence

from gage_eval.config.models import MetricConfig, ParseFieldConfig, PipelineConfig
from gage_eval.metrics import BoundMetric, bind
from gage_eval.metrics.normalization import NormalizationConfig
from gage_eval.metrics.parse_schema import ParseField, ParseSchema


def metric_names(config: PipelineConfig) -> frozenset[str]:
    """Ids and implementations of all metrics of a config."""
    every = [*config.metrics, *(metric for task in config.tasks for metric in task.metric_overrides)]
    return frozenset(name for metric in every for name in (metric.metric_id, metric.implementation))


def bound(
    spec: MetricConfig, parsed: Sequence[ParseFieldConfig] = (), normalization: NormalizationConfig | None = None
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
