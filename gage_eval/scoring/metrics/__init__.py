"""Metrics: small pure functions, or classes (`families`), bound to parameters, paths and filters, applied to tables."""

from gage_eval.scoring.metrics.base import Score, metric, text_filter
from gage_eval.scoring.metrics.bind import BoundMetric, bind
from gage_eval.scoring.metrics.verdicts import Verdict, verdict_parser

__all__ = ["BoundMetric", "Score", "Verdict", "bind", "metric", "text_filter", "verdict_parser"]
