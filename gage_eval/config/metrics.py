"""All metrics of a config, bound to their parameters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gage_eval.config.bound_metric import try_bound
from gage_eval.config.models import MetricConfig, ParseFieldConfig, PipelineConfig
from gage_eval.config.problems import ConfigProblem, Loc
from gage_eval.config.resolve import ResolvedTask
from gage_eval.scoring.metrics import BoundMetric


@dataclass
class BoundMetrics:
    """The bound metrics of all tasks.

    Attributes:
        by_task: metrics by task id.
        problems: those of metrics that cannot be bound.
    """

    by_task: dict[str, tuple[BoundMetric, ...]] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)


def bind_metrics(config: PipelineConfig, tasks: Mapping[int, ResolvedTask]) -> BoundMetrics:
    """Bind the metrics of all tasks. Metrics without a task are only checked.

    Args:
        config: a valid config.
        tasks: those of its tasks that could be resolved, by index.
    """
    out = BoundMetrics()
    tried: set[int] = set()
    for index, task in tasks.items():
        ready = []
        normalization = task.profile.normalization if task.profile else None
        for metric in task.metrics:
            made = try_bound(metric, task.task.parse_schema, normalization)
            if isinstance(made, BoundMetric):
                ready.append(made)
            else:
                out.problems.append(_at(config, index, metric, made))
            tried.add(id(metric))
        out.by_task[task.task.task_id] = tuple(ready)
    for loc, metric, parsed in _written(config):
        if id(metric) not in tried and isinstance(made := try_bound(metric, parsed, None), ConfigProblem):
            out.problems.append(replace(made, loc=(*loc, *made.loc)))
    return out


def _at(config: PipelineConfig, task: int, metric: MetricConfig, problem: ConfigProblem) -> ConfigProblem:
    """The location of a metric's problem: where the metric is written, else the task."""
    for loc, other, parsed in _written(config):
        if other is metric:
            if loc[0] == "metrics" and isinstance(try_bound(metric, parsed, None), BoundMetric):
                # The metric would work for another task.
                return ConfigProblem(("tasks", task), f"metric '{metric.metric_id}': {problem.message}", problem.cause)
            return replace(problem, loc=(*loc, *problem.loc))
    return ConfigProblem(("tasks", task, "answer_type"), problem.message, problem.cause)


def _written(config: PipelineConfig) -> Iterator[tuple[Loc, MetricConfig, Sequence[ParseFieldConfig]]]:
    """Every metric of a config with its location and the fields it may read from parsed answers."""
    every = tuple({item.field: item for task in config.tasks for item in task.parse_schema}.values())
    for index, metric in enumerate(config.metrics):
        yield ("metrics", index), metric, every
    for at, task in enumerate(config.tasks):
        for index, metric in enumerate(task.metric_overrides):
            yield ("tasks", at, "metric_overrides", index), metric, task.parse_schema


def metric_names(config: PipelineConfig) -> frozenset[str]:
    """Ids and implementations of all metrics of a config."""
    return frozenset(name for _, metric, _ in _written(config) for name in (metric.metric_id, metric.implementation))
