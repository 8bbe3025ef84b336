"""Checks whether a config can be run. Reports all mistakes at once."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gage_eval.authoring.first_rows import lacking_fields
from gage_eval.base.errors import ConfigError, InputError, Problem
from gage_eval.config.document import Origin
from gage_eval.models.backends.base import BackendContext, BaseBackend, Blocks
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.specs import Plan, TaskPlan
from gage_eval.runs.options import RunOptions, load
from gage_eval.runs.planned import planned


@dataclass(frozen=True)
class Validation:
    """A config that can be run.

    Attributes:
        name: name of the config or suite.
        source: the config's file or suite.
        digest: digest of the complete config, with all defaults and rules applied.
        warnings: problems that do not prevent a run.
        names: the tasks, datasets, models, judges and metrics.
        origins: where each value of the config came from, by its path. Other values are defaults.
    """

    name: str
    source: str
    digest: str
    warnings: list[str]
    names: dict[str, list[str]]
    origins: Mapping[str, Origin]


def validated(options: RunOptions, *, blocks: Blocks | None = None) -> Validation:
    """Check a config, its data files and its backends. Nothing is written.

    Args:
        options: the config.
        blocks: the blocks of the Prefect API, if there is one.

    Raises:
        ConfigError: all mistakes of the config.
        InputError: it cannot be read.
    """
    try:
        run_plan = planned(options, blocks=blocks)
    except ConfigError:
        load(options, context=BackendContext(blocks=blocks), with_data=True)
        raise
    loaded, plan = run_plan.loaded, run_plan.plan
    # Data of a pinned origin may still have to be fetched: its own sha256 says what they will be.
    later = [task for task in plan.tasks if run_plan.data.missing(task.load.origin_files)]
    problems = _not_there(plan, later)
    problems = problems or [problem for task in plan.tasks if task not in later for problem in lacking_fields(task)]
    if problems:
        raise ConfigError(loaded.source, list(dict.fromkeys(problems)))
    notes = [f"the data of '{name}' are not here yet; a run fetches them." for name in _datasets(later)]
    names: dict[str, list[str]] = {
        "tasks": [task.task_id for task in plan.tasks],
        "datasets": _datasets(plan.tasks),
        "models": sorted({task.infer.model_name for task in plan.tasks}),
        "judges": sorted({task.judge.generate.model_name for task in plan.tasks if task.judge.generate}),
        "metrics": list(dict.fromkeys(m.metric_id for task in plan.tasks for m in task.auto_eval.metrics)),
    }
    return Validation(plan.name, loaded.source, loaded.digest, [*loaded.warnings, *notes], names, loaded.origins)


def _datasets(tasks: Iterable[TaskPlan]) -> list[str]:
    return sorted({task.load.dataset_id for task in tasks})


def _check_model(spec: GenerateSpec) -> None:
    """Build a role's backend, and check that what it starts is installed."""
    model = spec.model
    if isinstance(model, BaseBackend):
        model.check_installed()


def _not_there(plan: Plan, later: Collection[TaskPlan]) -> list[Problem]:
    """Missing data files and backends that cannot be built.

    The data of the tasks of ``later`` are not looked at.
    """
    problems = []
    for task in plan.tasks:
        roles = [spec for _, spec in task.models]
        checks: list[tuple[str, Callable[[], Any]]] = [
            (f"dataset '{task.load.dataset_id}'", partial(getattr, task.load, "source")),
            *((f"adapter '{spec.adapter_id}'", partial(_check_model, spec)) for spec in roles),
        ]
        for location, check in checks[1:] if task in later else checks:
            try:
                check()
            except InputError as error:
                problems.append(Problem(location, str(error)))
    return list(dict.fromkeys(problems))
