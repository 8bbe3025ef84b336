"""From a resolved config to the specs of every stage of every task."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gage_eval import registry
from gage_eval.backends.base import BackendContext
from gage_eval.backends.role_hooks import RoleHooks
from gage_eval.config.load import LoadedConfig
from gage_eval.config.metrics import metric_names
from gage_eval.config.models import DatasetConfig, PipelineConfig, PromptConfig
from gage_eval.config.resolve import ResolvedRole, ResolvedTask
from gage_eval.foreign import without_folders
from gage_eval.metrics.verdicts import read_parser
from gage_eval.planning.data import preprocess_spec, standardize_spec
from gage_eval.planning.generate_spec import GenerateSpec, JudgeSpec, PromptBinding
from gage_eval.planning.metrics import score_spec, task_card
from gage_eval.planning.specs import LoadSpec, Plan, ReportSpec, TaskPlan


@dataclass(frozen=True)
class Surroundings:
    """What specs need that no config says.

    Attributes:
        media: bytes of a ``media://`` URL.
        media_file: the file that holds them, None where there is none on this machine.
        secrets: value of a ``block:`` reference, None without a Prefect API.
        env: environment variables for ``env:`` references.
        sample_ids: run only these samples.
    """

    media: Callable[[str], bytes] | None = None
    secrets: Callable[[str], str] | None = None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    sample_ids: tuple[str, ...] = ()
    media_file: Callable[[str], Path | None] = lambda url: None


def make_plan(loaded: LoadedConfig, surroundings: Surroundings | None = None) -> Plan:
    """The specs of all tasks.

    Raises:
        InputError: a metric's parameters are wrong.
    """
    around = surroundings or Surroundings()
    tasks = tuple(_task(task, loaded.config, loaded.base_dir, around) for task in loaded.tasks)
    name = loaded.config.metadata.name or Path(loaded.source).stem
    return Plan(name, tasks)


def _task(task: ResolvedTask, config: PipelineConfig, base_dir: Path, around: Surroundings) -> TaskPlan:
    task_id = task.task.task_id
    infer = _generate(task, task.dut, "dut_model", base_dir, around)
    scoring = score_spec(task, metric_names(config))
    specs = TaskPlan(
        task_id=task_id,
        load=_load(task, base_dir),
        standardize=standardize_spec(task_id, task.dataset),
        preprocess=preprocess_spec(task, base_dir, around.sample_ids),
        support=_generate(task, task.support, "support", base_dir, around) if task.support else None,
        infer=infer,
        judge=_judge(task, config, base_dir, around),
        auto_eval=scoring,
        report=ReportSpec(
            task_id,
            task.dataset.dataset_id,
            model_name(infer),
            task.task.description,
            card=task_card(task, scoring.metrics),
        ),
    )
    return specs if task.examples is None else replace(specs, pool=_pool(specs, task.examples, base_dir))


def _pool(specs: TaskPlan, examples: DatasetConfig, base_dir: Path) -> TaskPlan:
    """The task's twin that loads and standardizes its few-shot examples, whatever the task's own limits are."""
    # No id of a config holds a colon.
    name = f"{specs.task_id}:few_shot"
    return replace(
        specs, task_id=name, load=_dataset(name, examples, base_dir), standardize=standardize_spec(name, examples)
    )


def _load(task: ResolvedTask, base_dir: Path) -> LoadSpec:
    whole = _dataset(task.task.task_id, task.dataset, base_dir)
    limits = [limit for limit in (whole.limit, task.task.max_samples) if limit is not None]
    return replace(
        whole,
        limit=min(limits, default=None),
        shuffle=whole.shuffle if task.task.shuffle is None else task.task.shuffle,
        seed=whole.seed if task.task.shuffle_seed is None else task.task.shuffle_seed,
    )


def _dataset(task_id: str, dataset: DatasetConfig, base_dir: Path) -> LoadSpec:
    """The rows of a dataset as it is declared."""
    params = dataset.params
    return LoadSpec(
        task_id=task_id,
        dataset_id=dataset.dataset_id,
        loader=dataset.loader,
        params=loader_params(dataset),
        base_dir=base_dir,
        limit=params.limit,
        shuffle=params.shuffle,
        seed=params.seed,
        filter=params.filter,
        sample=params.sample,
    )


def loader_params(dataset: DatasetConfig) -> dict[str, Any]:
    """What the loader itself is given: where the data is and the keys only it knows."""
    places = {"path": dataset.params.path, "hub": dataset.hub}
    params: dict[str, Any] = {
        **dataset.hub_params,
        **(dataset.params.model_extra or {}),
        **{name: value for name, value in places.items() if value is not None},
    }
    # Every loader reads row by row; only one from a hub can do so without fetching the whole set first.
    if dataset.params.streaming and "streaming" in registry.loaders.get(dataset.loader).info.get("params", ()):
        params["streaming"] = True
    return params


def _generate(
    task: ResolvedTask, role: ResolvedRole, role_type: str, base_dir: Path, around: Surroundings
) -> GenerateSpec:
    adapter = role.adapter
    return GenerateSpec(
        task_id=task.task.task_id,
        role=role_type,
        adapter_id=adapter.adapter_id,
        backend_type=role.backend.type,
        backend_config=role.backend.config,
        context=BackendContext(
            base_dir=base_dir,
            media=around.media,
            env=around.env,
            secrets=around.secrets,
            media_file=around.media_file,
        ),
        prompt=_prompt(role.prompt, adapter.prompt_params) if role.prompt else None,
        params={**adapter.params, **adapter.sampling_params},
        max_error_share=task.task.max_error_share,
        hooks=RoleHooks(adapter.class_path) if adapter.class_path else None,
        tool_rounds=adapter.tool_rounds,
        pool_size=adapter.resource_requirement.pool_size,
    )


def _judge(task: ResolvedTask, config: PipelineConfig, base_dir: Path, around: Surroundings) -> JudgeSpec:
    """The task's judge, and those that samples may name instead."""
    if task.judge is None:
        return JudgeSpec(task.task.task_id)
    roles = (task.judge, *task.other_judges)
    ids = tuple(role.adapter.adapter_id for role in roles)
    own, *others = (
        replace(
            _generate(task, role, "judge_model", base_dir, around),
            prompts={prompt.prompt_id: _prompt(prompt, role.adapter.prompt_params) for prompt in config.prompts},
            judges=ids,
            on_demand=role is not task.judge,
        )
        for role in roles
    )
    parsers = {role.adapter.adapter_id: read_parser(role.adapter.verdict_parser) for role in roles}
    return JudgeSpec(task.task.task_id, own, tuple(others), parsers)


def _prompt(prompt: PromptConfig, params: Mapping[str, Any]) -> PromptBinding:
    template = prompt.template
    plain: Any = (
        template
        if isinstance(template, str)
        else [{"role": message.role, "content": message.content} for message in template]
    )
    return PromptBinding(prompt.prompt_id, plain, prompt.system_prompt, {**prompt.params, **params})


def model_name(spec: GenerateSpec) -> str:
    """What people call the model of a spec: its name or file, else the kind of backend."""
    for key in ("model", "model_path", "model_name_or_path", "path"):
        value = spec.backend_config.get(key)
        if isinstance(value, str) and value:
            return Path(value).name if key != "model" else value
    return without_folders(spec.backend_type)
