"""Several tasks or slices as one number: micro (every sample counts the same) and macro (every task or slice does)."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from gage_eval.report.summary import GroupMetric, GroupScore, GroupSummary, MetricNumber, MetricSummary, TaskSummary
from gage_eval.scoring.metrics.aggregations.base import stored_aggregation
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.stats import (
    Interval,
    macro_freedom,
    macro_mean,
    macro_stderr,
    mover_interval,
    pooled_mean,
    pooled_stderr,
    t_interval,
)


class Group(Protocol):
    """What a config says of a group."""

    @property
    def group_id(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def tasks(self) -> Sequence[str]: ...
    @property
    def by(self) -> str | None: ...
    @property
    def values(self) -> Sequence[str]: ...
    @property
    def metrics(self) -> Sequence[str]: ...


def group_summaries(groups: Sequence[Group], tasks: Sequence[TaskSummary]) -> list[GroupSummary]:
    """The numbers of each group.

    Args:
        groups: of the config.
        tasks: of the run. A group with other tasks than these is left out.

    Returns:
        A metric is there for every number (metric id, filter, value key, aggregation) that all tasks of a group have
        and that is a mean over samples. Its scores are None while one of the tasks, or of the slices that the group
        names, has no score: they would be those of another group.
    """
    by_id = {task.task_id: task for task in tasks}
    summaries = []
    for group in groups:
        if not by_id.keys() >= set(group.tasks):
            continue
        members = _members(group, [by_id[name] for name in group.tasks])
        summaries.append(
            GroupSummary(
                group_id=group.group_id,
                description=group.description,
                tasks=list(group.tasks),
                by=group.by,
                members=len(members),
                metrics=list(_metrics(members, group.metrics)),
            )
        )
    return summaries


def _members(group: Group, tasks: Sequence[TaskSummary]) -> list[list[MetricSummary]]:
    """The numbers of each member of a group: of a task, or of a slice of one."""
    if group.by is None:
        return [task.metrics for task in tasks]
    members: list[list[MetricSummary]] = []
    for task in tasks:
        slices: dict[str | None, list[MetricSummary]] = {value: [] for value in group.values}
        for metric in task.slices:
            if metric.slice_field == group.by and (not group.values or metric.slice_value in slices):
                slices.setdefault(metric.slice_value, []).append(metric)
        members += slices.values()
    return members


def _metrics(members: Sequence[Sequence[MetricSummary]], wanted: Sequence[str]) -> Iterator[GroupMetric]:
    by_key = [{metric.key: metric for metric in metrics} for metrics in members]
    for number, first in next((metrics for metrics in by_key if metrics), {}).items():
        if (wanted and first.metric_id not in wanted) or not _is_pooled(first.aggregation):
            continue
        of_members = [metrics[number] for metrics in by_key if number in metrics]
        # A slice without rows has no numbers at all: the group's score is then unknown.
        whole = len(of_members) == len(members)
        if whole or not all(by_key):
            yield GroupMetric(
                **first.model_dump(include=set(MetricNumber.model_fields)),
                n=sum(metric.n for metric in of_members),
                micro=_micro(of_members) if whole else GroupScore(),
                macro=macro_score(of_members) if whole else GroupScore(),
            )


def _is_pooled(aggregation: str) -> bool:
    """Only a plain mean over samples can be pooled by the number of samples."""
    how = stored_aggregation(aggregation)
    return how is not None and how.is_mean and not how.takes_weights


def _micro(metrics: Sequence[MetricSummary]) -> GroupScore:
    values = [metric.value for metric in metrics if metric.value is not None]
    if len(values) < len(metrics):
        return GroupScore()
    sizes = [metric.n for metric in metrics]
    stderr = pooled_stderr(sizes, [metric.stderr for metric in metrics])
    weights = [size / sum(sizes) for size in sizes] if sum(sizes) else []
    return _score(pooled_mean(sizes, values), stderr, sum(sizes) - len(sizes), metrics, weights)


def macro_score(metrics: Sequence[MetricSummary]) -> GroupScore:
    """The mean of several tasks' numbers with its interval, every task the same; unknown while one is unknown.

    Args:
        metrics: at least one; all on one scale.
    """
    values = [metric.value for metric in metrics if metric.value is not None]
    if len(values) < len(metrics):
        return GroupScore()
    stderrs = [metric.stderr for metric in metrics]
    freedom = macro_freedom([metric.n for metric in metrics], stderrs)
    return _score(macro_mean(values), macro_stderr(stderrs), freedom, metrics, [1 / len(values)] * len(values))


def _score(
    value: float | None,
    stderr: float | None,
    freedom: float | None,
    metrics: Sequence[MetricSummary],
    weights: Sequence[float],
) -> GroupScore:
    """A group's score with its interval: from Wilson's of its members where all have that, else Student's."""
    ends = [Interval(*metric.ends) for metric in metrics if metric.interval == "wilson" and metric.ends is not None]
    if value is not None and weights and len(ends) == len(metrics):
        low, high = mover_interval(weights, [metric.value or 0.0 for metric in metrics], ends)
        return GroupScore(value=value, stderr=stderr, ci_low=max(0.0, low), ci_high=min(1.0, high))
    interval = None if value is None or stderr is None or freedom is None else t_interval(value, stderr, freedom)
    if value is None or interval is None:
        return GroupScore(value=value, stderr=stderr)
    like = metrics[0]
    low, high = Scale(low=like.bound_low, high=like.bound_high).clipped(value, *interval)
    return GroupScore(value=value, stderr=stderr, ci_low=low, ci_high=high)
