"""A comparison of two runs as the report shows it."""

from collections.abc import Sequence

from gage_eval.regression.compare import Compared
from gage_eval.report.details import ComparedSlice, ComparedTask, Comparison


def comparison(baseline: str, found: Sequence[Compared]) -> Comparison:
    """The comparison for report.html.

    Args:
        baseline: the baseline's name.
        found: the compared tasks.
    """
    return Comparison(baseline, tuple(map(_task, found)))


def _task(one: Compared) -> ComparedTask:
    numbers, task = one.evidence, one.task
    tested = numbers.test != "none"
    return ComparedTask(
        task_id=task.task_id,
        metric=task.measure.name,
        n=numbers.n,
        baseline=numbers.baseline,
        current=numbers.current,
        difference=numbers.difference,
        low=numbers.low if tested else None,
        high=numbers.high if tested else None,
        p=one.p if tested else None,
        test=numbers.test if tested else "",
        better=tuple(task.better),
        worse=tuple(task.worse),
        slices=tuple(ComparedSlice(x.name, x.n, x.difference) for x in task.slices),
        notes=(*(f"Not the same {kind}, as allowed." for kind in one.allowed), *one.notes),
    )
