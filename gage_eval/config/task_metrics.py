"""The metrics of a task: its own, the config's, and those of its answer type's preset."""

from collections.abc import Mapping
from typing import Any

from gage_eval.config.models import MetricConfig, PipelineConfig, TaskConfig
from gage_eval.config.problems import Loc
from gage_eval.scorecards.profile import ScoringProfile, compares, metric_entry, no_preset, resolve_metrics

Warned = list[tuple[Loc, str]]


def metrics_of(
    config: PipelineConfig, task: TaskConfig, profile: ScoringProfile | None
) -> tuple[tuple[MetricConfig, ...], Warned]:
    """The metrics of a task, by the rules of ``metrics_mode``; and warnings by location in the task."""
    overrides = {metric.metric_id: metric for metric in task.metric_overrides}
    if overrides and task.metrics_mode == "replace":
        return tuple(overrides.values()), []
    merged = {metric.metric_id: metric for metric in config.metrics} | overrides
    warned: Warned = []
    if profile is not None and task.answer_type is not None:
        merged, warned = _with_preset(task, task.answer_type, profile, merged)
    if not merged:
        warned.append(((), "no metrics; answers are stored and nothing is scored."))
    return tuple(merged.values()), warned


def _with_preset(
    task: TaskConfig, answer_type: str, profile: ScoringProfile, own: dict[str, MetricConfig]
) -> tuple[dict[str, MetricConfig], Warned]:
    """The preset's metrics and the task's, by id. The task's metric replaces one with the same id."""
    if profile.get_preset(answer_type) is None:
        what = "the task's own metrics count" if own else "the task has no own metrics either"
        return own, [(("answer_type",), f"{no_preset(answer_type, profile)}; {what}.")]
    chosen = resolve_metrics(answer_type, list(own.values()), profile, mode=task.metrics_mode)
    metrics = [rule if isinstance(rule, MetricConfig) else _of_preset(rule, task) for rule in chosen]
    return {metric.metric_id: metric for metric in metrics}, []


def _of_preset(rule: Mapping[str, Any], task: TaskConfig) -> MetricConfig:
    """A preset's metric. If the task parses its answers, the metric reads the first field, unless it names another."""
    entry = metric_entry(rule)
    params = entry["params"]
    if (
        task.parse_schema
        and compares(entry["implementation"])
        and not {"prediction_field", "pred_field"} & params.keys()
    ):
        entry["params"] = {**params, "prediction_field": task.parse_schema[0].field}
    return MetricConfig.model_validate(entry)
