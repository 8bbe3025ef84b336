"""What a run writes for users: summary.json, report.html and the exports that the config names."""

import time
from datetime import UTC, datetime

from gage_eval.canonical import decode
from gage_eval.report.groups import group_summaries
from gage_eval.report.html import report_html
from gage_eval.report.summary import Summary, TaskSummary, run_summary
from gage_eval.runs.export import export
from gage_eval.runs.folder import REPORT_FILE, SUMMARY_FILE
from gage_eval.runs.reading import TaskReader
from gage_eval.runs.session import RunOutcome, RunSession


def publish(session: RunSession) -> RunOutcome:
    """Write the run's folder from its artifacts and close the run's record.

    Always runs, even if every stage was cached.
    """
    summary = summarise(session)
    session.folder.write_json(SUMMARY_FILE, summary.model_dump(mode="json"))
    session.folder.write(REPORT_FILE, report_html(summary, datetime.fromtimestamp(session.began, UTC)).encode())
    readers = [_reader(session, task.task_id) for task in session.plan.tasks]
    for kind in session.loaded.config.export:
        export(readers, kind, session.folder)
    session.finish()
    return RunOutcome(session.run_id, session.folder, summary, dict(session.results))


def _reader(session: RunSession, task_id: str) -> TaskReader:
    outputs = {stage: result.outputs for (name, stage), result in session.results.items() if name == task_id}
    return TaskReader(session.store, task_id, outputs)


def summarise(session: RunSession) -> Summary:
    """Make the run's summary from the report artifacts of its tasks and the times of its stages."""
    tasks = []
    for task in session.plan.tasks:
        artifact = session.store.artifact(session.results[task.task_id, "report"].outputs["report"])
        tasks.append(TaskSummary.model_validate(decode(artifact.table()["summary"][0].as_py())))
    return run_summary(
        run_id=session.run_id,
        name=session.plan.name,
        tasks=tasks,
        stages=list(session.results.values()),
        wall_s=time.time() - session.began,
        groups=group_summaries(session.loaded.config.groups, tasks),
        suite=session.suite,
    )
