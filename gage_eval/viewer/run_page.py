"""The page of a run: what is wrong first, task by task."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import GageError, InputError
from gage_eval.report.details import KindOfAnswer, TaskDetails
from gage_eval.report.run_view import RunView, TaskView, run_facts, task_facts
from gage_eval.report.shares import remarks
from gage_eval.report.summary import MetricSummary, Summary
from gage_eval.runs.results.listing import run_remarks, scored_metrics, shown_stages
from gage_eval.runs.results.reading import RunReader
from gage_eval.scoring.metrics.scale import DEFAULT
from gage_eval.viewer.list_page import ListPage
from gage_eval.viewer.listing import ListLinks, ListState
from gage_eval.viewer.open_runs import MOST_COLUMNS, OpenRuns, StillIndexing
from gage_eval.viewer.overview import flips, task_details
from gage_eval.viewer.pages import rendered

# Of runs with more tasks, only the numbers of the summary are shown: their answers are read when one is opened.
MOST_INDEXED = 6


def run_page(open_runs: OpenRuns, lists: ListPage, run_id: str, params: Mapping[str, str]) -> str:
    """The page.

    Raises:
        InputError: the run does not exist.
    """
    run = open_runs.run(run_id)
    record, live = run.stored.record, run.stored.state == "running"
    rival = params.get("against") or lists.rival(run) or ""
    summary = run.stored.known_summary
    tasks = [_task(lists, run, task_id, rival) for task_id in run.task_ids]
    detailed = len(tasks) <= MOST_INDEXED
    if not detailed:
        tasks.sort(key=lambda task: -_trouble(task.metric))
    view = RunView(
        run_facts(
            record.models,
            summary,
            parameters=_parameters(run),
            commit=record.commit,
            probes=[probe.text for probe in record.probes],
        ),
        [*run_remarks(run.stored), *([] if summary is None else remarks(summary))],
        [] if summary is None else summary.groups,
        tasks,
        ListLinks(run_id),
        record.label,
        rival,
    )
    return rendered(
        "run.html",
        title=run_id,
        run=run,
        view=view,
        detailed=detailed,
        beside=[] if summary is None else _beside(run_id, summary),
        stages=[stage for stage in shown_stages(run.stored) if live or stage.state not in ("cached", "finished")],
        live=live or any(task.waiting is not None for task in tasks),
        has_report=summary is not None,
    )


def _parameters(run: RunReader) -> str:
    """The sampling parameters of the run's requests."""
    values: dict[str, dict[str, None]] = {}
    with suppress(GageError):  # the config names something that is gone
        for task in run.plan.tasks:
            for name, value in {**task.preprocess.params, **task.infer.params}.items():
                values.setdefault(name, {})[canonical_text(value)] = None
    return ", ".join(f"{name} {' or '.join(texts)}" for name, texts in values.items())


def _beside(run_id: str, summary: Summary) -> list[tuple[str, str]]:
    """Datasets that several tasks ask, such as models × prompts, with the columns of their matrix."""
    by_dataset: dict[str, list[str]] = {}
    for task in summary.tasks:
        by_dataset.setdefault(task.dataset_id, []).append(f"{run_id}/{task.task_id}")
    return [(name, ",".join(tasks)) for name, tasks in by_dataset.items() if 1 < len(tasks) <= MOST_COLUMNS]


def _task(lists: ListPage, run: RunReader, task_id: str, rival: str) -> TaskView:
    metrics = scored_metrics(run, task_id)
    summary = run.task(task_id).report
    facts = "" if summary is None else task_facts(summary, run.stored.record.models)
    task = TaskView(task_id, metrics, _summary_details(metrics[:1]), summary, facts)
    if len(run.task_ids) > MOST_INDEXED:
        return task
    try:
        shown = lists.open(run.run_id, ListState(task=task_id))
        scale = DEFAULT if shown.measure is None else shown.task.measure(shown.measure.name).scale
        details = task_details(shown.listing, shown.measure, scale)
        return replace(task, details=details, flips=_flips(lists, run, task_id, rival))
    except StillIndexing as work:
        return replace(task, details=TaskDetails(), waiting=work.share)
    except InputError as error:
        return replace(task, details=TaskDetails(), problem=str(error))


def _flips(lists: ListPage, run: RunReader, task_id: str, rival: str) -> tuple[int, int] | None:
    """None where the other run does not have the task or its metric."""
    try:
        return flips(lists.open(run.run_id, ListState(task=task_id, against=rival)).listing) if rival else None
    except InputError:
        return None


def _summary_details(metrics: Sequence[MetricSummary]) -> TaskDetails:
    """Failures as the summary counts them; an answer may be in several of these counts."""
    names = ("error", "refused", "truncated", "looped", "unparsed")
    kinds = [KindOfAnswer(name, count) for metric in metrics for name in names if (count := getattr(metric, name))]
    return TaskDetails(kinds=tuple(kinds))


def _trouble(metric: MetricSummary | None) -> float:
    """Points that a task lacks, times its samples."""
    if metric is None or metric.value is None or metric.higher_is_better is None:
        return 0.0
    ideal = metric.bound_high if metric.higher_is_better else metric.bound_low
    return abs((1.0 if ideal is None and metric.higher_is_better else ideal or 0.0) - metric.value) * metric.n
