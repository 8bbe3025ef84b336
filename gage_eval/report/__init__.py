"""The report of a finished run: summary.json, the console's score table, the HTML page."""

from gage_eval.report.groups import group_summaries
from gage_eval.report.summary import (
    GroupMetric,
    GroupScore,
    GroupSummary,
    MetricSummary,
    RunSummary,
    Summary,
    TaskMetric,
    TaskSummary,
    run_summary,
    task_summary,
)
from gage_eval.report.timings import StageTime, Timings, run_timings

__all__ = [
    "GroupMetric",
    "GroupScore",
    "GroupSummary",
    "MetricSummary",
    "RunSummary",
    "StageTime",
    "Summary",
    "TaskMetric",
    "TaskSummary",
    "Timings",
    "group_summaries",
    "run_summary",
    "run_timings",
    "task_summary",
]
