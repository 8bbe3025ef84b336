"""Checks whether a task's rule, judges and second judge fit together."""

from collections.abc import Iterator, Sequence

from gage_eval.base.errors import InputError
from gage_eval.config.models import BackendEntry
from gage_eval.config.problems import ConfigProblem, Loc, unknown
from gage_eval.config.resolve import ResolvedRole, ResolvedTask
from gage_eval.config.verdicts import possible_forms
from gage_eval.models.backends.base import Backend, BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.scoring.metrics import BoundMetric

# What verdicts of a rule have.
_OF_RULE = frozenset({"score", "status", "decided_by"})
_PANEL_METRICS = frozenset({"panel_score", "panel_pass"})


def check_judging(
    loc: Loc, task: ResolvedTask, metrics: Sequence[BoundMetric], context: BackendContext
) -> Iterator[ConfigProblem]:
    """Find what does not fit in `judge_rule`, `judge_draws` and `second_judge`, and in the metrics of a panel.

    Args:
        loc: the place of the task.
        task: the task.
        metrics: its metrics.
        context: what backends are built with.
    """
    config = task.task
    fields = {"judge_rule": config.judge_rule, "second_judge": config.second_judge}
    used = [name for name, value in fields.items() if value is not None]
    used += ["judge_draws"] if config.judge_draws > 1 else []
    if task.judge is None:
        for name in used:
            yield ConfigProblem((*loc, name), "the task has no judge. Add one, or remove it.")
        return
    by_id = {role.adapter.adapter_id: role for role in (task.judge, *task.other_judges)}
    first = [by_id[name] for name in config.judges if name in by_id] or [task.judge]
    if config.judge_rule is not None:
        yield from _rule((*loc, "judge_rule"), task, metrics)
    if config.judge_draws > 1:
        for role in first:
            if "labels" in _forms(role, context) and not role.adapter.verdict_reasoning:
                said = f"the probabilities of judge '{role.adapter.adapter_id}' are the same each time; remove it."
                if role.adapter.verdict == "auto":
                    said = f"{said[:-1]}, or set its verdict: schema."
                yield ConfigProblem((*loc, "judge_draws"), said)
    yield from _panel(loc, task, metrics)
    if config.second_judge is not None:
        yield from _second((*loc, "second_judge"), task, first, by_id.get(config.second_judge.adapter_id), context)


def _panel(loc: Loc, task: ResolvedTask, metrics: Sequence[BoundMetric]) -> Iterator[ConfigProblem]:
    """Metrics of a panel that have too few verdicts to make a score of."""
    config = task.task
    verdicts = max(len(config.judges), 1) * config.judge_draws * (2 if config.both_orders else 1)
    for metric in metrics:
        if metric.implementation not in _PANEL_METRICS:
            continue
        name, least = f"metric '{metric.metric_id}'", (metric.recipe["params"] or {}).get("min_valid", 1)
        if verdicts == 1:
            said = f"{name} makes one score of several verdicts, and the task asks for one: name several 'judges'."
            yield ConfigProblem(loc, said)
        elif least > verdicts:
            said = f"{name} needs {least} valid verdicts (min_valid), and the task asks for {verdicts}."
            yield ConfigProblem(loc, said)


def _rule(loc: Loc, task: ResolvedTask, metrics: Sequence[BoundMetric]) -> Iterator[ConfigProblem]:
    config = task.task.judge_rule
    assert config is not None
    for metric in metrics:
        for path in metric.field_paths:
            if path.input.name == "judgments" and path.parts[0] not in _OF_RULE:
                said = f"metric '{metric.metric_id}' reads {path.text}, which an answer that the rule decides lacks. "
                yield ConfigProblem(loc, f"{said}Use a metric of the judge's score.")
    rule = next((metric for metric in metrics if metric.metric_id == config.metric), None)
    if rule is None:
        # A metric that cannot be bound has been reported.
        if config.metric not in [metric.metric_id for metric in task.metrics]:
            known = [metric.metric_id for metric in metrics]
            yield ConfigProblem((*loc, "metric"), unknown("metric of the task", config.metric, known))
        return
    if more := sorted(rule.inputs - {"samples", "responses"}):
        said = f"metric '{rule.metric_id}' reads {', '.join(more)}; a rule reads the sample and the answer only."
        yield ConfigProblem((*loc, "metric"), said)
        return
    scale = rule.scale(rule.value_keys[0])
    low, high = scale.low, scale.high
    outside = [
        value
        for value in config.values
        if (low is not None and value < low) or (high is not None and value > high)
        if scale.declared
    ]
    if outside:
        said = f"metric '{rule.metric_id}' never has the value {outside[0]:g}."
        yield ConfigProblem((*loc, "values"), said)
    if config.scale is not None and (low, high) != (0, 1):
        said = f"metric '{rule.metric_id}' is not a number from 0 to 1: remove 'scale', or use another metric."
        yield ConfigProblem((*loc, "scale"), said)


def _second(
    loc: Loc,
    task: ResolvedTask,
    first: Sequence[ResolvedRole],
    second: ResolvedRole | None,
    context: BackendContext,
) -> Iterator[ConfigProblem]:
    config = task.task.second_judge
    assert config is not None
    if second is None:
        known = [role.adapter.adapter_id for role in task.other_judges]
        yield ConfigProblem((*loc, "adapter_id"), unknown("judge", config.adapter_id, known))
        return
    if config.below is None and not (task.task.judges or task.task.both_orders or task.task.judge_draws > 1):
        said = "a single verdict cannot disagree: set the probability 'below' which the second judge is asked, or "
        yield ConfigProblem(loc, f"{said}give the task several 'judges' or 'judge_draws'.")
    for role in first:
        name = role.adapter.adapter_id
        if config.below is not None and "labels" not in _forms(role, context):
            said = f"judge '{name}' gives no probabilities. Set its verdict: labels, or remove it."
            yield ConfigProblem((*loc, "below"), said)
        scales = [_scale(role), _scale(second)]
        if None not in scales and scales[0] != scales[1]:
            said = f"'{config.adapter_id}' and '{name}' have different scales: give their verdict_labels the same ends."
            yield ConfigProblem((*loc, "adapter_id"), said)


def _scale(role: ResolvedRole) -> tuple[float, float] | None:
    """The ends of a judge's scale; None where it is not declared."""
    labels = role.adapter.verdict_labels
    return (min(labels.values()), max(labels.values())) if isinstance(labels, dict) and labels else None


def _forms(role: ResolvedRole, context: BackendContext) -> Sequence[str]:
    """The forms that a judge's verdicts may have; none where its backend is wrong, which another check reports."""
    adapter, backend = role.adapter, built(role.backend, context)
    return () if backend is None else possible_forms(adapter.verdict, adapter.verdict_labels, backend.capabilities)


def built(backend: BackendEntry, context: BackendContext) -> Backend | None:
    """A backend with its config; None if it cannot be built, which another check reports."""
    try:
        return build_backend(backend.type, backend.config, context)
    except InputError:
        return None
