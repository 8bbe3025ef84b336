"""The seven stages."""

from gage_eval.pipeline.action import ALL
from gage_eval.pipeline.auto_eval import auto_eval
from gage_eval.pipeline.infer import infer, support
from gage_eval.pipeline.judge import judge
from gage_eval.pipeline.load import load
from gage_eval.pipeline.preprocess import preprocess
from gage_eval.pipeline.report import report
from gage_eval.pipeline.standardize import standardize

__all__ = ["ALL", "auto_eval", "infer", "judge", "load", "preprocess", "report", "standardize", "support"]
