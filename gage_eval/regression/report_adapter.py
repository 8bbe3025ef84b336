"""A comparison of two runs, and a verdict of the gate, as the report shows them."""

from collections.abc import Sequence
from dataclasses import replace

from gage_eval.regression.compare import TaskComparison, TaskComparisonResult
from gage_eval.regression.gating import GateResult, TaskGate
from gage_eval.regression.why import MEANINGS, TaskWhy
from gage_eval.report.details import Cause, Causes, ComparedTask, Comparison
from gage_eval.report.figures import Mark, interval_figure
from gage_eval.report.summary import format_value, p_text, signed_ends, signed_text
from gage_eval.report.trend_chart import TrendPoint
from gage_eval.runs.results.publication import Publication
from gage_eval.stats.evidence import Evidence

# So many answers of a cause are on a page.
_MOST_ANSWERS = 200


def comparison(baseline: str, results: Sequence[TaskComparisonResult], moved: Sequence[TaskWhy] = ()) -> Comparison:
    """The comparison for report.html.

    Args:
        baseline: the baseline's name.
        results: the compared tasks.
        moved: why their scores moved, where that is to be shown.
    """
    by_task = {task.task_id: causes(task) for task in moved}
    tasks = map(_compared, results)
    return Comparison(baseline, tuple(replace(task, causes=by_task.get(task.task_id)) for task in tasks))


def causes(task: TaskWhy) -> Causes:
    """Why the scores of a task moved, as pages show it."""
    notes = [f"Also different: {x.kind} {x.text}" for x in task.also_differing]
    return Causes(
        task.task_id,
        task.sentence,
        tuple(
            Cause(
                cause.replace("_", " "),
                MEANINGS[cause],
                count,
                *task.moved(cause)[:2],
                task.of_cause(cause)[:_MOST_ANSWERS],
            )
            for cause, count in task.counts.items()
        ),
        (*notes, *task.lacking),
    )


def comparison_cells(result: TaskComparisonResult) -> tuple[str, ...]:
    """A compared task as a row: task, metric, both scores, difference, interval, p, pairs, changed samples."""
    task = result.task
    cells = evidence_cells(result.evidence, result.p, len(task.better), len(task.worse))
    return (task.task_id, task.measure.name, *cells)


def evidence_cells(numbers: Evidence, p: float, better: int, worse: int) -> tuple[str, ...]:
    """Both scores, difference, interval, p, pairs, changed samples."""
    return (
        format_value(numbers.baseline),
        format_value(numbers.current),
        signed_text(numbers.difference),
        signed_ends(numbers.bounds),
        "–" if numbers.test == "none" else p_text(p),
        f"{numbers.n:,}",
        f"+{better:,} −{worse:,}",
    )


def publication(baseline: str, results: Sequence[tuple[str, Sequence[TaskComparisonResult]]]) -> Publication:
    """Comparisons as a table and as a forest plot of the differences.

    Args:
        baseline: the run that the others are compared with.
        results: each other run with its compared tasks.
    """
    title = f"Change against run {baseline}, paired by sample"
    rows, records = [], []
    panels: dict[str, list[Mark]] = {}
    for run_id, compared in results:
        rows += [(run_id, *comparison_cells(result)) for result in compared]
        for result in compared:
            plain = {name: x for name, x in result.as_record().items() if not isinstance(x, list)}
            records.append({"baseline_run": baseline, "run": run_id, **plain})
            mark = Mark(
                f"{run_id} {result.task.task_id}", result.evidence.difference, *(result.evidence.bounds or (None, None))
            )
            panels.setdefault(result.task.measure.name, []).append(mark)
    return Publication(
        title,
        ("run", "task", "metric", baseline, "run's score", "better by", "95 % interval", "p", "n", "changed"),
        rows,
        records,
        lambda: interval_figure(title, list(panels.items()), differences=True),
        ["Positive is better.", "p is adjusted for the tasks of a run (Holm)."],
    )


def gated_comparison(newest: GateResult, anchor: GateResult | None, points: Sequence[TrendPoint]) -> Comparison:
    """The gate's verdict for report.html.

    Args:
        newest: the result against the newest entry of the baseline.
        anchor: that against its first entry, where this is another one.
        points: the trends of the tasks.
    """
    notes = [f"The verdict on the whole is {newest.verdict}."] if len(newest.tasks) > 1 else []
    notes += newest.remarks
    if anchor is not None and anchor.verdict != newest.verdict:
        notes.append(f"Against the anchor of the baseline (entry {anchor.entry.number}) it is {anchor.verdict}.")
    return Comparison(
        f"baseline {newest.entry.name}, entry {newest.entry.number}",
        tuple(_gated(task, points) for task in newest.tasks),
        # Two one-sided bounds.
        level=1 - 2 * newest.rule.alpha,
        notes=tuple(notes),
    )


def _compared(result: TaskComparisonResult) -> ComparedTask:
    notes = [*(f"Not the same {kind}, as allowed." for kind in result.allowed), *result.notes]
    notes += [own.text for own in (result.corrected, result.controlled) if own is not None]
    if result.detectable is not None:
        notes.append(f"A loss of {format_value(result.detectable)} or more would be found with a chance of 80 %.")
    return _task(result.task, result.evidence, result.p, notes)


def _gated(gate: TaskGate, points: Sequence[TrendPoint]) -> ComparedTask:
    tier = [] if gate.tier is None else [f"It is {gate.tier}."]
    task = _task(gate.comparison, gate.decision.evidence, gate.decision.p, (*tier, *gate.all_remarks))
    own = tuple(point for point in points if (point.task_id, point.metric) == (task.task_id, task.metric))
    test = f"{task.test}, one-sided" if task.test else ""
    return replace(task, verdict=gate.decision.verdict, test=test, trend=own)


def _task(task: TaskComparison, numbers: Evidence, p: float, notes: Sequence[str]) -> ComparedTask:
    return ComparedTask(
        task.task_id,
        task.measure.name,
        numbers,
        p if numbers.test != "none" else None,
        numbers.test_name,
        better=tuple(task.better),
        worse=tuple(task.worse),
        slices=tuple(task.slices),
        notes=tuple(notes),
    )
