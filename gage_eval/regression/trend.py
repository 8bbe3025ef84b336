"""The scores of a suite's runs over time."""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from itertools import islice

from gage_eval.regression.baselines import BaselineEntry
from gage_eval.report.summary import MetricSummary, TaskSummary
from gage_eval.report.trend_chart import MOST_POINTS, TrendPoint
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.stored import StoredRun, completed_runs

# Runs of other suites and models that are read to find those of a trend.
_MOST_READ = 1_000


def trend(
    locations: Locations,
    entry: BaselineEntry,
    counts: Callable[[StoredRun], bool] = lambda stored: True,
    *,
    metrics: Mapping[str, Collection[str]] | None = None,
    until: datetime | None = None,
    most: int | None = None,
    among: int | None = None,
) -> list[TrendPoint]:
    """Completed runs of the entry's suite, oldest first; one point per number.

    Damaged runs are left out, and runs of chosen samples or subjects, as those of a triage.

    Args:
        locations: where the runs are.
        entry: of the baseline.
        counts: says which runs to take.
        metrics: the numbers of each task, by their names; the first one by default.
        until: take no run that began later.
        most: take at most this many runs, the newest.
        among: look at most at this many runs, the newest.
    """
    of_suite = completed_runs(locations, entry.suite, among)
    runs = (stored for stored in of_suite if counts(stored) and _is_whole(stored, until))
    points = [
        TrendPoint(
            stored.record.created, stored.run_id, task.task_id, number.name, number.value, number.ci_low, number.ci_high
        )
        for stored in islice(runs, most)
        for task in stored.summary.tasks
        if task.task_id in entry.runs[0].tasks
        for number in _numbers(task, metrics)
    ]
    return sorted(points, key=lambda point: (point.task_id, point.metric if metrics else "", point.created))


def trend_before(run: RunReader, entry: BaselineEntry, metrics: Mapping[str, Collection[str]]) -> list[TrendPoint]:
    """The trend of the runs that measure what a run measures, up to it: the same model on the same requests."""
    wanted = _measured(run.stored)
    return trend(
        run.stored.folder.locations,
        entry,
        lambda stored: _measured(stored) == wanted,
        metrics=metrics,
        until=run.stored.record.created,
        most=MOST_POINTS,
        among=_MOST_READ,
    )


def _is_whole(stored: StoredRun, until: datetime | None) -> bool:
    record = stored.record
    if (until is not None and record.created > until) or record.options.get("sample_ids") or record.subset:
        return False
    return stored.known_summary is not None and bool(stored.known_summary.tasks)


def _measured(stored: StoredRun) -> list[tuple[str, str | None, dict[str, str]]]:
    """Each task's model and prepared requests; empty where nothing is known."""
    tasks = [] if stored.known_summary is None else stored.known_summary.tasks
    return [(task.task_id, task.model, stored.outputs.get((task.task_id, "preprocess"), {})) for task in tasks]


def _numbers(task: TaskSummary, metrics: Mapping[str, Collection[str]] | None) -> Iterator[MetricSummary]:
    wanted = metrics.get(task.task_id) if metrics is not None else None
    if wanted is None:
        yield from task.metrics[:1]
    for name in wanted or ():
        yield from [summary for summary in task.metrics if summary.name == name][:1]
