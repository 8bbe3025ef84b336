"""What a run writes for users: summary.json, report.html and the exports that the config names."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from gage_eval.base.errors import visible
from gage_eval.observability.events import MetricReported, RunWarning
from gage_eval.pipeline.judging_cost import judging_cost
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.report.groups import group_summaries
from gage_eval.report.html import report_html
from gage_eval.report.judging import Judging
from gage_eval.report.summary import Summary, TaskSummary, run_summary
from gage_eval.runs.folder import REPORT_FILE, SUMMARY_FILE
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.report_details import run_details
from gage_eval.runs.session import RunOutcome, RunSession

_log = logging.getLogger(__name__)


def publish(session: RunSession) -> RunOutcome:
    """Write the run's folder from its artifacts and close the run's record.

    Always runs, even if every stage was cached.
    """
    summary = summarise(session)
    session.folder.write_json(SUMMARY_FILE, summary.model_dump(mode="json"))
    readers = [_reader(session, task.task_id) for task in session.plan.tasks]
    _write_report(session, summary, readers)
    if kinds := session.loaded.config.export:
        from gage_eval.runs.results.export import export

        for kind in kinds:
            export(readers, kind, session.folder, session.recorder.record())
    for metric in summary.metrics:
        session.observer.emit(
            MetricReported(metric.task_id, metric.name, metric.value, metric.ci_low, metric.ci_high, metric.n)
        )
    session.finish()
    return RunOutcome(session.run_id, session.folder, summary, dict(session.results))


def _write_report(session: RunSession, summary: Summary, readers: Sequence[TaskReader]) -> None:
    """Write report.html. A run whose report cannot be written has all its results, and completes with a warning."""
    try:
        details = run_details(
            session.recorder.record(),
            readers,
            began=datetime.fromtimestamp(session.began, UTC),
        )
        session.folder.write(REPORT_FILE, report_html(summary, details).encode())
    except Exception as error:  # noqa: BLE001 - whatever it is, the run's results are stored
        _log.debug("report.html of run %s", session.run_id, exc_info=True)
        message = f"report.html could not be written ({visible(str(error) or type(error).__name__)})."
        session.observer.emit(RunWarning(f"{message} All results are stored; see gage show {session.run_id}."))


def _reader(session: RunSession, task_id: str) -> TaskReader:
    outputs = {stage: result.outputs for (name, stage), result in session.results.items() if name == task_id}
    return TaskReader(session.store, task_id, outputs, plan=session.plan.task(task_id))


def _with_cost(session: RunSession, task: TaskPlan, summary: TaskSummary, judging: Judging) -> TaskSummary:
    """The summary with what depends on prices and on this run, which the report artifact does not hold."""
    result = session.results[task.task_id, "judge"]
    figures = {
        "cost": judging_cost(session.store, task.judge, result.outputs),
        "seconds": result.seconds if result.counts.get("sent") and not result.cached else None,
    }
    return summary.model_copy(update={"judging": judging.model_copy(update=figures)})


def summarise(session: RunSession) -> Summary:
    """Make the run's summary from the report artifacts of its tasks and the times of its stages."""
    tasks = []
    for task in session.plan.tasks:
        summary = _reader(session, task.task_id).summary
        tasks.append(summary if summary.judging is None else _with_cost(session, task, summary, summary.judging))
    return run_summary(
        run_id=session.run_id,
        name=session.plan.name,
        tasks=tasks,
        stages=list(session.results.values()),
        wall_s=session.seconds,
        groups=group_summaries(session.loaded.config.groups, tasks),
        suite=session.suite,
        models=session.plan.models(identified=True),
        spent=session.spent,
    )
