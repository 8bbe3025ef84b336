"""report: metrics and counts → the task's part of the summary. Cached like other stages; the run publishes it."""

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import canonical_text
from gage_eval.base.tables import REPORT
from gage_eval.pipeline.action import StageRun, stage
from gage_eval.pipeline.rejects import first_rejects
from gage_eval.pipeline.specs import ReportSpec
from gage_eval.report.summary import task_summary


@stage("report")
def report(run: StageRun, spec: ReportSpec) -> None:
    """Collect the results of a task.

    Args:
        run: reads ``metrics``, ``samples``, ``rejects``, ``prepare_rejects`` and ``responses``; writes ``report``, one
            row of canonical JSON.
        spec: the names in the report.
    """
    responses = run.input("responses")
    tokens = {"prompt_tokens": 0, "completion_tokens": 0}
    for table in responses.tables(columns=list(tokens)):
        for name in tokens:
            tokens[name] += pc.sum(table[name]).as_py() or 0
    unprepared = run.input("prepare_rejects").rows
    summary = task_summary(
        task_id=spec.task_id,
        dataset_id=spec.dataset_id,
        model=spec.model_name,
        description=spec.description,
        metrics=run.input("metrics").table().to_pylist(),
        sample_count=run.input("samples").rows - unprepared,
        reject_count=run.input("rejects").rows + unprepared,
        first_rejects=[*first_rejects(run.input("rejects")), *first_rejects(run.input("prepare_rejects"))],
        statuses=dict(responses.counts),
        tokens=tokens,
        complete=responses.complete,
        card=spec.card,
        headline=spec.headline,
    )
    text = canonical_text(summary.model_dump(mode="json"))
    run.writer(REPORT).write(0, pa.Table.from_pydict({"summary": [text]}, schema=REPORT.arrow))
    run.commit(REPORT)
