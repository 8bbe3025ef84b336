"""The metrics of a task: its own, the config's, and those of its answer type's preset."""

from gage_eval.base.errors import closest
from gage_eval.config.models import MetricConfig, PipelineConfig, TaskConfig
from gage_eval.config.problems import Loc
from gage_eval.config.scoring_profiles import ScoringProfile
from gage_eval.extend import registry

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
    preset = profile.scorers.get(answer_type)
    if preset is None:
        what = "the task's own metrics count" if own else "the task has no own metrics either"
        known = ", ".join(profile.scorers) or "none"
        message = (
            f"the scoring profile has no preset for answer_type '{answer_type}' (it has: {known})"
            f"{closest(answer_type, profile.scorers)}; {what}."
        )
        return own, [(("answer_type",), message)]
    if own and task.metrics_mode == "replace":
        return own, []
    return {metric.metric_id: _of_preset(metric, task) for metric in preset.metrics} | own, []


def _of_preset(metric: MetricConfig, task: TaskConfig) -> MetricConfig:
    """A preset's metric. If the task parses its answers, the metric reads the first field, unless it names another."""
    names_field = {"prediction_field", "pred_field"} & metric.params.keys()
    if not task.parse_schema or names_field or not _compares(metric.implementation):
        return metric
    return metric.model_copy(update={"params": {**metric.params, "prediction_field": task.parse_schema[0].field}})


def _compares(implementation: str) -> bool:
    """Whether a metric compares an answer with a reference by a plain rule (`gage_eval.scoring.metrics.metric`)."""
    return bool(registry.metrics.get(implementation).info.get("normalized"))
