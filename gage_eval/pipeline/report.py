"""report: metrics and counts → the task's part of the summary. Cached like other stages; the run publishes it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import canonical_text
from gage_eval.base.statuses import EXECUTION_STATUSES, NOT_OK
from gage_eval.base.tables import REPORT
from gage_eval.pipeline.action import StageRun, stage
from gage_eval.pipeline.generation import tokens_of
from gage_eval.pipeline.rejects import first_rejects
from gage_eval.pipeline.specs import ReportSpec
from gage_eval.pipeline.stopping import scores_of
from gage_eval.report.calibration import Calibration
from gage_eval.report.drawn import Drawn
from gage_eval.report.judging import Judging, ReadVerdict, judging
from gage_eval.report.self_preference import SelfPreference, self_preference
from gage_eval.report.stopped import Stopped
from gage_eval.report.summary import Executions, task_summary
from gage_eval.scoring.metrics.verdicts import PAIR_OUTCOMES
from gage_eval.store import Artifact

# A plug-in may invent one for each row.
_MOST_KINDS = 100


@stage("report")
def report(run: StageRun, spec: ReportSpec) -> None:
    """Collect the results of a task.

    Args:
        run: reads ``metrics``, ``samples``, ``rejects``, ``prepare_rejects``, ``responses``, ``judgments`` where
            there is a judge, and ``executions`` where programs were run; writes ``report``, one row of canonical JSON.
        spec: the names in the report.
    """
    responses = run.input("responses")
    sent_rows = sum(pc.count_distinct(table["row_index"]).as_py() for table in responses.tables(columns=["row_index"]))
    unprepared, samples = run.input("prepare_rejects").rows, run.input("samples").rows
    summary = task_summary(
        task_id=spec.task_id,
        dataset_id=spec.dataset_id,
        model=spec.model_name,
        description=spec.description,
        metrics=run.input("metrics").table().to_pylist(),
        # Of a subset, only the samples that were asked count.
        sample_count=samples - unprepared if spec.is_whole else sent_rows,
        rejects=run.input("rejects").rows + unprepared,
        first_rejects=[*first_rejects(run.input("rejects")), *first_rejects(run.input("prepare_rejects"))],
        statuses=dict(responses.counts),
        error_kinds=_error_kinds(responses),
        tokens=tokens_of(responses),
        complete=responses.complete,
        card=spec.card,
        headline=spec.headline,
        subset=list(spec.subset or ()),
        executions=_executions(run, spec),
        calibration=_calibration(run, spec),
        judging=_judging(run, spec),
        stopped=_stopped(run, spec),
        drawn=Drawn(samples=sent_rows, total=samples) if spec.quick and sent_rows < samples else None,
    )
    # A task that asks all rows has the report that it had before it could ask fewer.
    unused = {name for name in ("stopped", "drawn", "error_kinds") if not getattr(summary, name)}
    text = canonical_text(summary.model_dump(mode="json", exclude=unused))
    run.writer(REPORT).write(0, pa.Table.from_pydict({"summary": [text]}, schema=REPORT.arrow))
    run.commit(REPORT)


def _error_kinds(responses: Artifact) -> dict[str, dict[str, int]]:
    """The responses of each status by error kind: the most frequent ones."""
    counted: Counter[tuple[str, str]] = Counter()
    if any(responses.counts.get(status) for status in NOT_OK):
        for table in responses.tables(columns=["status", "error_kind"]):
            named = table.filter(pc.is_valid(table["error_kind"]))
            counted.update(zip(named["status"].to_pylist(), named["error_kind"].to_pylist(), strict=True))
    kinds: dict[str, dict[str, int]] = {}
    for (status, kind), count in counted.most_common(_MOST_KINDS):
        kinds.setdefault(status, {})[kind] = count
    return kinds


def _stopped(run: StageRun, spec: ReportSpec) -> Stopped | None:
    """What the looks found; None where all rows are asked."""
    if spec.stop is None:
        return None
    scores = run.env.store.artifact(scores_of(run.input("metrics"), spec.stop.metric_id))
    return spec.stop.stopped(spec.look, run.input("samples"), scores, run.env.store)


def _calibration(run: StageRun, spec: ReportSpec) -> Calibration | None:
    """The judge against the labels of people; None without labels."""
    labels = spec.labels
    if labels is None:
        return None
    scores = run.env.store.artifact(scores_of(run.input("metrics"), labels.metric_id))
    return labels.calibration(scores, run.input("samples"))


def _judging(run: StageRun, spec: ReportSpec) -> Judging | None:
    """The verdicts of the task's judges; None without a judge."""
    if not run.has_input("judgments"):
        return None
    judgments, responses = run.input("judgments"), run.input("responses")
    lengths = {
        (str(row), replicate): length
        for table in responses.tables(columns=["row_index", "replicate", "answer"])
        for row, replicate, length in zip(
            table["row_index"].to_pylist(),
            table["replicate"].to_pylist(),
            pc.utf8_length(table["answer"]).to_pylist(),
            strict=True,
        )
        if length is not None
    }
    columns = ["row_index", "replicate", "slot", "answer", "score", "decided_by", "response_key"]
    verdicts = (
        ReadVerdict(
            (str(row["row_index"]), row["replicate"]),
            row["score"],
            row["decided_by"],
            row["response_key"],
            _outcome(row) if spec.pairs else None,
        )
        for table in judgments.tables(columns=columns)
        for row in table.to_pylist()
    )
    said = judging(verdicts, lengths, judgments.counts, dict(spec.kin))
    against_people = _against_people(run, spec, [*said.decided_by])
    return said.model_copy(update={"self_preference": [*said.self_preference, *against_people]})


def _outcome(row: Mapping[str, Any]) -> float | None:
    """What a verdict on a pair says of the model's answer, which is A in even slots, then B."""
    won = PAIR_OUTCOMES.get((row["answer"] or "").strip().casefold())
    return 1 - won if won is not None and row["slot"] % 2 else won


def _against_people(run: StageRun, spec: ReportSpec, judges: Sequence[str]) -> list[SelfPreference]:
    """The only judge against the labels of people, where it is of the model's family."""
    if spec.labels is None or len(judges) != 1 or judges[0] not in dict(spec.kin):
        return []
    scores = run.env.store.artifact(scores_of(run.input("metrics"), spec.labels.metric_id))
    verdicts = spec.labels.judged(scores, run.input("samples")).verdicts
    labels = spec.labels.labels_of(run.input("samples"))
    pairs = [
        (label.answer, verdicts[label.answer], label.value)
        for label in labels
        if label.value is not None and label.answer in verdicts
    ]
    preference = self_preference(judges[0], "people", pairs)
    return [] if preference is None else [preference]


def _executions(run: StageRun, spec: ReportSpec) -> Executions | None:
    """How the programs of the answers ended; None where none were run."""
    if not run.has_input("executions"):
        return None
    table = run.input("executions")
    counts = table.counts
    kinds = {
        name: sorted({kind for rows in table.tables([name]) for kind in rows[name].unique().to_pylist()})
        for name in ("mode", "containment")
    }
    return Executions(
        mode=", ".join(kinds["mode"]),
        containment=", ".join(kinds["containment"]),
        statuses={status: counts.get(status, 0) for status in EXECUTION_STATUSES},
        near_limit=counts.get("near_limit", 0),
        attacks=None if spec.attacks is None else "{} of {}".format(*spec.attacks),
        official=spec.official,
    )
