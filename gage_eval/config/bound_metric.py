"""A metric of a config, bound to its parameters."""

from collections.abc import Sequence

from gage_eval.base.errors import InputError
from gage_eval.config.models import MetricConfig, ParseFieldConfig
from gage_eval.config.problems import ConfigProblem
from gage_eval.extend import registry
from gage_eval.extend.loading import PluginError
from gage_eval.scoring.metrics import BoundMetric, bind
from gage_eval.scoring.metrics.normalization import NormalizationConfig
from gage_eval.scoring.metrics.parse_schema import ParseField, ParseSchema

# Of an entry of a config, what `bind` takes in another way or not at all.
_OTHERS = frozenset({"implementation", "params", "description"})


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
        **{name: getattr(spec, name) for name in type(spec).model_fields if name not in _OTHERS},
        normalization=normalization,
        parse_schema=ParseSchema(fields) if fields else None,
    )


def try_bound(
    metric: MetricConfig,
    parsed: Sequence[ParseFieldConfig] = (),
    normalization: NormalizationConfig | None = None,
) -> BoundMetric | ConfigProblem:
    """The metric, or its problem, located relative to the metric."""
    try:
        registry.metrics.get(metric.implementation)
    except InputError as error:
        return ConfigProblem(("implementation",), str(error), error)
    try:
        return bound(metric, parsed, normalization)
    except PluginError as error:
        return ConfigProblem(("implementation",), str(error), error)
    except InputError as error:
        message = str(error)
        # The message quotes the parameter, which is a more exact location.
        named = next((key for key in metric.params if f"'{key}'" in message), None)
        return ConfigProblem(() if named is None else ("params", named), message)
