"""The comparison of two runs, as the list shows it in one chip and the page of the comparison in full."""

from gage_eval.regression.compare import compare
from gage_eval.regression.report_adapter import causes, comparison
from gage_eval.regression.why import why
from gage_eval.report.details import Causes, Comparison
from gage_eval.runs.results.reading import RunReader
from gage_eval.viewer.open_runs import OpenRuns


def compared(
    open_runs: OpenRuns,
    run: RunReader,
    other: RunReader,
    *,
    task_id: str | None = None,
    metric: str | None = None,
    allowed: tuple[str, ...] = (),
    wait_s: float | None = None,
) -> Comparison:
    """The tasks of a run against those of another one, remembered until one of them changes.

    Args:
        open_runs: the runs.
        run, other: the run, and what it is compared with.
        task_id: this task only.
        metric: this metric instead of each task's first one.
        allowed: kinds of differences that do not stop the comparison.
        wait_s: how long to wait for it.

    Raises:
        InputError: they measure different things, or share no task.
        StillIndexing: it takes longer.
    """
    key = ("compare", *_version(run), *_version(other), task_id, metric, allowed)
    what = f"the comparison of {run.run_id} and {other.run_id}"
    return open_runs.computed(
        key,
        what,
        lambda _: comparison(other.run_id, compare(other, run, task_id=task_id, metric=metric, allowed=allowed)),
        wait_s=wait_s,
    )


def causes_between(
    open_runs: OpenRuns, run: RunReader, other: RunReader, *, task_id: str | None = None, metric: str | None = None
) -> tuple[Causes, ...]:
    """Why the scores of a run are others than those of another one, by task, remembered until one of them changes.

    Args:
        open_runs: the runs.
        run, other: the run, and what it is compared with.
        task_id: this task only.
        metric: this metric instead of each task's first one.

    Raises:
        InputError: they share no task.
        StillIndexing: it takes longer.
    """
    key = ("why", *_version(run), *_version(other), task_id, metric)
    what = f"why {run.run_id} and {other.run_id} differ"
    return open_runs.computed(key, what, lambda _: tuple(map(causes, why(other, run, task_id=task_id, metric=metric))))


def _version(run: RunReader) -> tuple[str, str]:
    """What changes when the run does."""
    return run.run_id, str(run.stored.record.updated)
