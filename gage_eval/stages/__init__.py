"""The seven stages."""

from gage_eval.base.stages import StageResult
from gage_eval.planning.dag import Call, prepare, run_dag
from gage_eval.planning.specs import Plan, TaskPlan
from gage_eval.stages.auto_eval import auto_eval
from gage_eval.stages.base import ALL, Env
from gage_eval.stages.infer import infer, support
from gage_eval.stages.judge import judge
from gage_eval.stages.load import load
from gage_eval.stages.preprocess import preprocess
from gage_eval.stages.report import report
from gage_eval.stages.standardize import standardize

__all__ = [
    "ALL",
    "Call",
    "Env",
    "Plan",
    "StageResult",
    "TaskPlan",
    "auto_eval",
    "infer",
    "judge",
    "load",
    "prepare",
    "preprocess",
    "report",
    "run_dag",
    "standardize",
    "support",
]
