"""All names that plug-ins import. Everything else of this package may move or change without notice.

    from gage_eval.plugins import Score, metric

docs/plugins/ has a page and a complete example for each kind of plug-in. A name is loaded when it is first used.
"""

from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gage_eval.base.errors import EndpointFailed, GageError, InputError
    from gage_eval.base.marks import identity, scheduling, semantic
    from gage_eval.data.datasets.base import FileLoader, Loader
    from gage_eval.data.sample.record import RecordRejected
    from gage_eval.data.standardize.fields import Preprocessor
    from gage_eval.extend import registry
    from gage_eval.models.backends.base import BackendConfig, BackendContext, BaseBackend
    from gage_eval.models.client.tools import ToolError
    from gage_eval.models.client.types import Request, RequestRefused, Response
    from gage_eval.scoring.metrics.aggregations.base import (
        Aggregate,
        CountedRows,
        Samples,
        aggregation,
        mean_over_samples,
    )
    from gage_eval.scoring.metrics.base import Score, metric, sample_filter, text_filter
    from gage_eval.scoring.metrics.families import (
        ComparisonMetric,
        LikelihoodMetric,
        MultiReferenceTextMetric,
        NumericThresholdMetric,
        RankingMetric,
        SequenceDistanceMetric,
        SimpleMetric,
    )
    from gage_eval.scoring.metrics.verdicts import Verdict, verdict_parser

    backend = registry.backends.register
    loader = registry.loaders.register
    preprocessor = registry.preprocessors.register
    tool = registry.tools.register

# The module of each name. A dotted name is an attribute there.
_MODULES = {
    "base.errors": ("EndpointFailed", "GageError", "InputError"),
    "base.marks": ("identity", "scheduling", "semantic"),
    "data.datasets.base": ("FileLoader", "Loader"),
    "data.sample.record": ("RecordRejected",),
    "data.standardize.fields": ("Preprocessor",),
    "extend.registry": ("backends.register", "loaders.register", "preprocessors.register", "tools.register"),
    "models.backends.base": ("BackendConfig", "BackendContext", "BaseBackend"),
    "models.client.tools": ("ToolError",),
    "models.client.types": ("Request", "RequestRefused", "Response"),
    "scoring.metrics.aggregations.base": (
        "Aggregate",
        "CountedRows",
        "Samples",
        "aggregation",
        "mean_over_samples",
    ),
    "scoring.metrics.base": ("Score", "metric", "sample_filter", "text_filter"),
    "scoring.metrics.families": (
        *("ComparisonMetric", "LikelihoodMetric", "MultiReferenceTextMetric", "NumericThresholdMetric"),
        *("RankingMetric", "SequenceDistanceMetric", "SimpleMetric"),
    ),
    "scoring.metrics.verdicts": ("Verdict", "verdict_parser"),
}
_NAMES = {
    "backends.register": "backend",
    "loaders.register": "loader",
    "preprocessors.register": "preprocessor",
    "tools.register": "tool",
}
_HOMES = {_NAMES.get(name, name): (module, name) for module, names in _MODULES.items() for name in names}

__all__ = [
    "Aggregate",
    "BackendConfig",
    "BackendContext",
    "BaseBackend",
    "ComparisonMetric",
    "CountedRows",
    "EndpointFailed",
    "FileLoader",
    "GageError",
    "InputError",
    "LikelihoodMetric",
    "Loader",
    "MultiReferenceTextMetric",
    "NumericThresholdMetric",
    "Preprocessor",
    "RankingMetric",
    "RecordRejected",
    "Request",
    "RequestRefused",
    "Response",
    "Samples",
    "Score",
    "SequenceDistanceMetric",
    "SimpleMetric",
    "ToolError",
    "Verdict",
    "aggregation",
    "backend",
    "identity",
    "loader",
    "mean_over_samples",
    "metric",
    "preprocessor",
    "sample_filter",
    "scheduling",
    "semantic",
    "text_filter",
    "tool",
    "verdict_parser",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gage_eval.plugins' has no attribute '{name}'")
    module, path = _HOMES[name]
    return attrgetter(path)(import_module(f"gage_eval.{module}"))
