"""Shares of rows with problems, their limits, and a sentence for each share above its limit."""

from collections.abc import Iterator, Sequence

from gage_eval.report.suite_run import SuiteRun
from gage_eval.report.summary import MetricSummary, Summary, TaskSummary

_SHOWN = 5


# Largest shares that go without a word: of all responses; of a metric's rows, unparsed answers and rows without a score
# (error, skipped, unscored); of all records, rejected rows.
_TRUNCATED, _LOOPED, _REFUSED = 0.05, 0.01, 0.05
_UNPARSED, _FAILED, _REJECTED = 0.10, 0.01, 0.0


def share_text(count: int, total: int) -> str:
    """A share for a table: ``0.4 %``, ``0`` for none, ``<0.1 %`` for what would round to none.

    >>> share_text(0, 10), share_text(5, 1319), share_text(1, 100000)
    ('0', '0.4 %', '<0.1 %')
    """
    if not count or not total:
        return "0"
    percent = 100 * count / total
    return "<0.1 %" if percent < 0.05 else f"{percent:.1f} %"


def remarks(summary: Summary) -> list[str]:
    """One sentence if the suite was modified, one for each subset, and one for each share above its limit."""
    suite = summary.suite
    changed = [] if suite is None or not suite.modified else [_modified(suite)]
    subsets = [f"{task.task_id}: {_subset(task, summary)}" for task in summary.tasks if task.subset]
    shares = [f"{task.task_id}: {remark}" for task in summary.tasks for remark in _task_remarks(task)]
    return changed + subsets + shares


def is_unread(summary: Summary) -> bool:
    """Whether no metric of some task could read any answer: its score says nothing of the model."""
    return any(
        task.metrics and all(metric.unparsed == metric.all_rows > 0 for metric in task.metrics)
        for task in summary.tasks
    )


def _modified(suite: SuiteRun) -> str:
    return f"Modified: {first_names(suite.modified, _SHOWN)}. This is not a score of {suite.name} {suite.version}."


def _subset(task: TaskSummary, summary: Summary) -> str:
    whole = "the whole task" if summary.suite is None else f"{summary.suite.name} {summary.suite.version}"
    return f"a subset, {first_names(task.subset, _SHOWN)}. This is not a score of {whole}."


def first_names(names: Sequence[str], most: int) -> str:
    """``a, b and 3 more``."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _task_remarks(task: TaskSummary) -> Iterator[str]:
    responses = sum(task.responses.values())
    records = task.sample_count + task.rejects
    truncated, looped, refused = (task.responses.get(status, 0) for status in ("truncated", "looped", "refused"))
    if _above(task.rejects, records, _REJECTED):
        yield f"{_of(task.rejects, records)} records were rejected and are not scored."
    if _above(truncated, responses, _TRUNCATED):
        cut = f"{_of(truncated, responses)} answers were cut at the token limit"
        yield f"{cut} and are scored like any other answer. Raise max_new_tokens."
    if _above(looped, responses, _LOOPED):
        ended = f"{_of(looped, responses)} answers ended in a loop"
        yield f"{ended} and are scored like any other answer. More tokens would not help."
    if limit := task.responses.get("limit", 0):
        yield (
            f"{_of(limit, responses)} answers ended at a limit{_kinds(task, 'limit')}. They are scored "
            "like any other answer. Read why some did not end, or raise tool_rounds, max_turns or the adapter's limits."
        )
    if (failed := task.responses.get("error", 0)) and task.error_kinds:
        yield f"{_of(failed, responses)} requests have no answer{_kinds(task, 'error')}."
    if _above(refused, responses, _REFUSED):
        yield f"{_of(refused, responses)} answers are refusals and are scored like any other answer."
    if task.executions is not None:
        yield f"programs by how they ended: {task.executions.text}."
    for part in (task.drawn, task.stopped, task.judging):
        if part is not None:
            yield f"{part.text}."
    if task.calibration is not None:
        yield " ".join(task.calibration.sentences)
    for metric in task.metrics:
        yield from _metric_remarks(metric)
    yield from _valueless(task)
    yield from _empty_slices(task)


def _metric_remarks(metric: MetricSummary) -> Iterator[str]:
    if _above(metric.unparsed, metric.all_rows, _UNPARSED):
        fate = _fate(metric.unparsed, metric.unparsed_credited)
        yield f"{metric.name} could not read {_of(metric.unparsed, metric.all_rows)} answers; {fate}."
    if metric.overridden:
        rows = f"{_of(metric.overridden, metric.all_rows)} rows"
        yield f"{metric.name} has {rows} scored under parameters of their samples (eval_config)."
    if _above(metric.unscored, metric.all_rows, _FAILED):
        yield f"{metric.name} has no score for {_of(metric.unscored, metric.all_rows)} rows; they are left out."


def _fate(unparsed: int, credited: int) -> str:
    """What unparsed answers count as."""
    if not credited:
        return "they count as wrong"
    return (
        f"{credited:,} of them got a value above 0 all the same, for example by a random option, and the other "
        f"{unparsed - credited:,} count as wrong"
    )


def _valueless(task: TaskSummary) -> Iterator[str]:
    """Numbers that a metric declares and gives to no answer, while it gives others."""
    with_values = {(metric.metric_id, metric.filter) for metric in task.metrics if metric.rows}
    for metric in task.metrics:
        if not metric.rows and (metric.metric_id, metric.filter) in with_values:
            yield f"{metric.name} has no value: the metric gave none of the answers one."


def _empty_slices(task: TaskSummary) -> Iterator[str]:
    """Fields of slices that no sample has."""
    fields = dict.fromkeys(metric.slice_field for metric in task.slices)
    held = {metric.slice_field for metric in task.slices if metric.slice_value is not None}
    for field in fields:
        if field not in held:
            yield f"no sample has {field}, so there are no slices by it."


def _kinds(task: TaskSummary, status: str) -> str:
    """``: 3 turns, 1 rounds``; empty where the kinds are not known."""
    text = task.kinds_text(status)
    return f": {text}" if text else ""


def _above(count: int, total: int, limit: float) -> bool:
    return count > 0 and total > 0 and count / total > limit


def _of(count: int, total: int) -> str:
    return f"{count:,} of {total:,} ({share_text(count, total)})"
