"""Metrics: small pure functions, or classes (`families`), bound to parameters, paths and filters, applied to tables."""

from gage_eval.metrics.base import Score, metric, text_filter
from gage_eval.metrics.bind import BoundMetric, bind

__all__ = ["BoundMetric", "Score", "bind", "metric", "text_filter"]
