"""The page of a run: what is wrong first, task by task."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import GageError, InputError
from gage_eval.report.console import closing_facts
from gage_eval.report.details import Bin
from gage_eval.report.shares import remarks
from gage_eval.report.summary import MetricSummary
from gage_eval.runs.results.listing import run_remarks, scored_metrics, shown_stages
from gage_eval.runs.results.reading import RunReader
from gage_eval.viewer.list_page import ListPage
from gage_eval.viewer.listing import ListState
from gage_eval.viewer.open_runs import MOST_COLUMNS, OpenRuns, StillIndexing
from gage_eval.viewer.overview import Flips, Reason, SliceScore, answer_bins, flips, kind_counts, reasons, worst_slices
from gage_eval.viewer.pages import rendered

_ROLES = {"dut_model": "model", "judge_model": "judge"}
# Of runs with more tasks, only the numbers of the summary are shown: their answers are read when one is opened.
MOST_INDEXED = 6


@dataclass(frozen=True)
class ShownTask:
    """A task on the run's page.

    Attributes:
        metric: its first number; None before scoring.
        kinds: answers by kind, from the index or, of large runs, from the summary.
        ratings: answers by their value; empty where it is right or wrong.
        lengths: answers by length, in ``unit``, with their mean value.
        waiting: the share of the index that is made; None when it is there, or not needed.
    """

    task_id: str
    metric: MetricSummary | None
    others: list[MetricSummary]
    kinds: dict[str, int]
    worst: list[SliceScore] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    flips: Flips | None = None
    ratings: Sequence[Bin] = ()
    lengths: Sequence[Bin] = ()
    unit: str = ""
    waiting: float | None = None
    problem: str = ""


def run_page(open_runs: OpenRuns, lists: ListPage, run_id: str, params: Mapping[str, str]) -> str:
    """The page.

    Raises:
        InputError: the run does not exist.
    """
    run = open_runs.run(run_id)
    live = run.stored.state == "running"
    rival = params.get("against") or lists.rival(run)
    try:
        summary = run.summary
    except InputError:
        summary = None
    numbers = {} if summary is None else {task.task_id: task.metrics for task in summary.tasks}
    detailed = len(run.task_ids) <= MOST_INDEXED
    tasks = []
    for task_id in run.task_ids:
        metrics = list(numbers[task_id] if task_id in numbers else scored_metrics(run, task_id))
        if detailed:
            tasks.append(_detailed(lists, run, task_id, metrics, rival))
        else:
            kinds = _summary_kinds(metrics[0]) if metrics else {}
            tasks.append(ShownTask(task_id, metrics[0] if metrics else None, [], kinds))
    if not detailed:
        tasks.sort(key=lambda task: -_trouble(task))
    return rendered(
        "run.html",
        title=run_id,
        run=run,
        summary=summary,
        groups=[] if summary is None else summary.groups,
        tasks=tasks,
        detailed=detailed,
        rival=rival,
        facts=_facts(run),
        beside=_beside(run),
        stages=[stage for stage in shown_stages(run.stored) if live or stage.state not in ("cached", "finished")],
        remarks=[*run_remarks(run.stored), *([] if summary is None else remarks(summary))],
        live=live or any(task.waiting is not None for task in tasks),
        has_report=summary is not None,
    )


def _facts(run: RunReader) -> list[tuple[str, str]]:
    """What the run is of (models, parameters, commit), and once it has finished what it took (time, tokens, cost)."""
    record = run.stored.record
    models = [(_ROLES.get(model.role, model.role), model.title) for model in record.models]
    facts = list(dict.fromkeys(models))
    with suppress(GageError):  # the config names something that is gone
        values: dict[str, dict[str, None]] = {}
        for task in run.plan.tasks:
            for name, value in {**task.preprocess.params, **task.infer.params}.items():
                values.setdefault(name, {})[canonical_text(value)] = None
        facts.append(("parameters", ", ".join(f"{name} {' or '.join(texts)}" for name, texts in values.items())))
    facts.append(("commit", record.commit or ""))
    with suppress(InputError):  # it has not finished
        facts.append(("took", " · ".join(closing_facts(run.summary))))
    return [(name, text) for name, text in facts if text]


def _beside(run: RunReader) -> list[tuple[str, str]]:
    """Datasets that several tasks ask, such as models × prompts, with the columns of their matrix."""
    by_dataset: dict[str, list[str]] = {}
    with suppress(InputError):  # it has not finished
        for task in run.summary.tasks:
            by_dataset.setdefault(task.dataset_id, []).append(f"{run.run_id}/{task.task_id}")
    return [(name, ",".join(tasks)) for name, tasks in by_dataset.items() if 1 < len(tasks) <= MOST_COLUMNS]


def _detailed(
    lists: ListPage, run: RunReader, task_id: str, metrics: list[MetricSummary], rival: str | None
) -> ShownTask:
    first, others = (metrics[0] if metrics else None), metrics[1:]
    try:
        shown = lists.open(run.run_id, ListState(task=task_id))
        changed = _flips(lists, run, task_id, rival) if rival else None
        kinds = kind_counts(shown.listing, shown.measure)
        bins: tuple[Sequence[Bin], Sequence[Bin], str] = ((), (), "")
        if shown.measure is not None:
            bins = answer_bins(shown.listing, shown.measure, shown.task.measure(shown.measure.name).scale)
        return ShownTask(
            task_id,
            first,
            others,
            kinds,
            worst_slices(shown.listing, shown.measure),
            reasons(shown.listing, shown.measure),
            changed,
            *bins,
        )
    except StillIndexing as work:
        return ShownTask(task_id, first, others, {}, waiting=work.share)
    except InputError as error:
        return ShownTask(task_id, first, others, {}, problem=str(error))


def _flips(lists: ListPage, run: RunReader, task_id: str, rival: str) -> Flips | None:
    """None where the other run does not have the task or its metric."""
    try:
        return flips(lists.open(run.run_id, ListState(task=task_id, against=rival)).listing)
    except InputError:
        return None


def _summary_kinds(metric: MetricSummary) -> dict[str, int]:
    """Failures as the summary counts them; an answer may be in several of these counts."""
    counts: dict[str, Any] = {name: getattr(metric, name) for name in ("error", "refused", "truncated", "unparsed")}
    return {name: count for name, count in counts.items() if count}


def _trouble(task: ShownTask) -> float:
    """Points that a task lacks, times its samples."""
    metric = task.metric
    if metric is None or metric.value is None or metric.higher_is_better is None:
        return 0.0
    ideal = metric.bound_high if metric.higher_is_better else metric.bound_low
    return abs((1.0 if ideal is None and metric.higher_is_better else ideal or 0.0) - metric.value) * metric.n
