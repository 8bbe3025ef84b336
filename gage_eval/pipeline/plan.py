"""From a resolved config to the specs of every stage of every task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import compile_path
from gage_eval.base.files import local_path
from gage_eval.box.executors import ExecutorSettings
from gage_eval.box.types import Limits
from gage_eval.config.agent import AgentConfig
from gage_eval.config.execution import BoxConfig, SimulatorConfig
from gage_eval.config.load import LoadedConfig
from gage_eval.config.metrics import metric_names
from gage_eval.config.models import (
    BackendEntry,
    DatasetConfig,
    JudgeRuleConfig,
    PipelineConfig,
    PromptConfig,
    RoleAdapterConfig,
    TaskConfig,
)
from gage_eval.config.resolve import ResolvedRole, ResolvedTask
from gage_eval.config.resources import placement_on, starts_engine
from gage_eval.config.suites.card import SuiteIdentity
from gage_eval.config.verdicts import possible_forms
from gage_eval.data.datasets.fetch import DataCache
from gage_eval.data.prepare.media import MediaRules
from gage_eval.engine.tools.mcp import McpServer
from gage_eval.engine.tools.sets import tools_of
from gage_eval.extend import registry
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import parse_config
from gage_eval.models.backends.role_hooks import RoleHooks
from gage_eval.models.client.episode_limits import EpisodeLimits, Price
from gage_eval.models.client.types import FollowUp
from gage_eval.pipeline.agents import AgentProgram
from gage_eval.pipeline.boxes import AgentBoxes, Boxes
from gage_eval.pipeline.data_spec import DataSource, data_source, preprocess_spec, standardize_spec
from gage_eval.pipeline.execution_spec import ExecutionSpec
from gage_eval.pipeline.generate_spec import GenerateSpec, PromptBinding
from gage_eval.pipeline.judge_rule import JudgeRule
from gage_eval.pipeline.judge_spec import JudgeForm, JudgeSpec
from gage_eval.pipeline.labels_spec import labels_spec
from gage_eval.pipeline.pairs import Pairs
from gage_eval.pipeline.quick import Quick
from gage_eval.pipeline.second_judge import SecondJudge
from gage_eval.pipeline.specs import LoadSpec, Plan, ReportSpec, ScoreSpec, TaskPlan
from gage_eval.pipeline.stopping import BaselineOf, StopRule, stop_rule
from gage_eval.pipeline.subsets import Subset, chosen_tasks, subject_fields
from gage_eval.pipeline.task_card import task_card
from gage_eval.report.model_run import kinship
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.label_verdicts import LabelVerdicts, SettledForm
from gage_eval.scoring.metrics.verdicts import read_parser

AnswersOf: TypeAlias = Callable[[str, str], str]
"""Name of a stored run, and of a task → id of the artifact with its answers. Raises InputError without them."""


def make_plan(
    loaded: LoadedConfig,
    sample_ids: tuple[str, ...] = (),
    data: DataCache | None = None,
    work_pool: str | None = None,
    *,
    quick: int | None = None,
    task_ids: Sequence[str] = (),
    answers_of: AnswersOf | None = None,
    baseline_of: BaselineOf | None = None,
) -> Plan:
    """The specs of the tasks. They use the bound metrics and built backends of the checked config.

    Args:
        loaded: the config.
        sample_ids: run only these samples.
        data: where the files of pinned origins lie; the default cache unless given.
        work_pool: where engines are served, in place of what the config says.
        quick: of each task, draw so many samples at random.
        task_ids: plan only these tasks, or subjects of them (`chosen_tasks`); all of them unless given.
        answers_of: finds the answers of stored runs that pairs are made with.
        baseline_of: finds the scores of baselines that a task is decided against.

    Raises:
        InputError: settings contradict each other, such as the bounds of image sizes; or a choice names nothing; or a
            stored run has no answers.
    """
    tasks = tuple(
        _task(
            task if work_pool is None else placed(task, work_pool),
            loaded,
            data or DataCache(),
            sample_ids,
            subset,
            quick,
            answers_of,
            baseline_of,
        )
        for task, subset in chosen_tasks(loaded, task_ids)
    )
    return Plan(loaded.config.metadata.name or Path(loaded.source).stem, tasks)


def placed(task: ResolvedTask, work_pool: str) -> ResolvedTask:
    """A task whose engines are served on a work pool. Endpoints, and what needs no model, stay where they are.

    Raises:
        InputError: an engine cannot be served elsewhere.
    """

    def moved(role: ResolvedRole) -> ResolvedRole:
        if role.placement is None and not starts_engine(role.backend):
            return role
        return replace(role, placement=placement_on(work_pool, role.backend))

    return replace(
        task,
        dut=moved(task.dut),
        judge=None if task.judge is None else moved(task.judge),
        support=None if task.support is None else moved(task.support),
        user=None if task.user is None else moved(task.user),
        other_judges=tuple(map(moved, task.other_judges)),
    )


def _task(
    task: ResolvedTask,
    loaded: LoadedConfig,
    data: DataCache,
    sample_ids: tuple[str, ...],
    subset: Subset | None,
    quick: int | None,
    answers_of: AnswersOf | None,
    baseline_of: BaselineOf | None,
) -> TaskPlan:
    task_id = task.task.task_id
    source = data_source(task.dataset, loaded.base_dir, data)
    examples = None if task.examples is None else data_source(task.examples, loaded.base_dir, data)
    quoted = None if loaded.suite is None else loaded.suite.metric
    preprocess = preprocess_spec(task, source, examples, sample_ids, subset)
    user = None if task.user is None else _generate(task, task.user, "user", loaded.context)
    infer = replace(_generate(task, task.dut, "dut_model", loaded.context, preprocess.media), user=user)
    execution = _execution(task.task, loaded.base_dir, preprocess.media)
    metrics, known, share = loaded.metrics[task_id], metric_names(loaded.config), task.task.max_unscored_share
    scoring = ScoreSpec(task_id, metrics, share, known, execution, preprocess.media)
    load = _load(task, source, subset)
    if quick is not None:
        preprocess = replace(preprocess, quick=Quick(quick, load.seed, subject_fields(loaded, task)))
    judge = _judge(task, loaded.config, loaded.context, scoring, _pairs(task.task, answers_of))
    specs = TaskPlan(
        task_id=task_id,
        load=load,
        standardize=replace(standardize_spec(task_id, task.dataset), load=load),
        preprocess=preprocess,
        support=_generate(task, task.support, "support", loaded.context) if task.support else None,
        infer=infer,
        judge=judge,
        auto_eval=scoring,
        report=ReportSpec(
            task_id,
            task.dataset.dataset_id,
            infer.model_name,
            task.task.description,
            card=task_card(task, scoring.metrics, quoted),
            headline=quoted,
            labels=labels_spec(task.task.labels, task_id, scoring.metrics, loaded.base_dir),
            subset=None if subset is None else subset.names,
            attacks=_attacks(loaded.suite, execution),
            official=execution is not None and execution.config.compat == "official",
            kin=_kin(infer, judge),
            stop=_stop(task.task, scoring.metrics, sample_ids, subset, quick, baseline_of),
            quick=quick is not None,
            pairs=task.task.both_orders,
        ),
    )
    return specs if examples is None else replace(specs, pool=_pool(specs, examples))


def _stop(
    task: TaskConfig,
    metrics: Sequence[BoundMetric],
    sample_ids: tuple[str, ...],
    subset: Subset | None,
    quick: int | None,
    baseline_of: BaselineOf | None,
) -> StopRule | None:
    """When a task has enough rows; None where all are asked.

    Raises:
        InputError: it cannot stop early, or a part of a part is to be drawn.
    """
    if quick is not None and (sample_ids or subset is not None):
        raise InputError(
            f"task '{task.task_id}', --quick: samples are drawn from all of them. Leave out --quick, or the choice of "
            "samples."
        )
    if task.stop_when is not None and (sample_ids or subset is not None or quick is not None):
        raise InputError(
            f"task '{task.task_id}', stop_when: only a run of all samples can stop early. Leave out stop_when, or the "
            "choice of samples."
        )
    return stop_rule(task.stop_when, task.task_id, metrics, baseline_of)


def _execution(task: TaskConfig, base_dir: Path, media: MediaRules) -> ExecutionSpec | None:
    """How the task's programs are run; None if they are not."""
    config = task.execution
    if config is None:
        return None
    roots = {image: str(local_path(root, base_dir)) for image, root in config.roots.items()}
    check = None if config.check is None else local_path(config.check, base_dir)
    return ExecutionSpec(config.model_copy(update={"roots": roots}), media, check)


def _kin(model: GenerateSpec, judge: JudgeSpec) -> tuple[tuple[str, str], ...]:
    """The judges that are the model under test, or of its family, and what is said of them."""
    judges = {spec.adapter_id: spec.declared_model for spec in judge.asked}
    return tuple(
        (name, f"judge '{name}' is {said}, and may prefer its answers")
        for name, declared in judges.items()
        if (said := kinship(declared, model.declared_model)) is not None
    )


def _attacks(suite: SuiteIdentity | None, execution: ExecutionSpec | None) -> tuple[int, int] | None:
    """How many attacks pass the tests, of how many, where that is known and the tests can be forged."""
    return None if suite is None or execution is None or execution.config.mode != "script" else suite.attacks


def _agent_boxes(adapter: RoleAdapterConfig, base_dir: Path, media: MediaRules) -> AgentBoxes:
    """The boxes of an adapter's tools."""
    config = adapter.box or BoxConfig()
    boxed = [server for server in adapter.mcp_servers if server.is_boxed]
    files = {path: local_path(file, base_dir) for server in boxed for path, file in server.files.items()}
    roots = {image: local_path(root, base_dir) for image, root in config.roots.items()}
    settings = ExecutorSettings(config.executor, config.slots, config.allow_unsafe, roots)
    limits = Limits(**config.model_dump(include={field.name for field in fields(Limits)}))
    starts = [server.command for server in boxed]
    return AgentBoxes(Boxes(settings), limits, config.image, media, config.artifacts, starts, files)


def _episode_limits(adapter: RoleAdapterConfig, backend: BackendEntry) -> EpisodeLimits | None:
    """The limits of an adapter's episodes; with the prices only where a cost depends on them.

    Raises:
        InputError: its backend has no prices for a limit on costs.
    """
    if (config := adapter.limits) is None:
        return None
    prices = parse_config(backend.type, backend.config)
    price = Price(prices.input_price, prices.output_price) if config.cost is not None else Price()
    if config.cost is not None and price == Price():
        raise InputError(
            f"role adapter '{adapter.adapter_id}': limits.cost needs input_price and output_price of its backend."
        )
    return EpisodeLimits(**config.model_dump(), price=price)


def _mcp_servers(adapter: RoleAdapterConfig, context: BackendContext, box: AgentBoxes | None) -> list[McpServer]:
    boxed = [server for server in adapter.mcp_servers if server.is_boxed]
    return [
        McpServer(
            tuple(config.command),
            config.url,
            context.base_dir,
            tuple(config.names),
            config.effects or ("state" if config.is_boxed else "outside"),
            config.repeatable,
            config.timeout_s,
            box if config.is_boxed else None,
            next((place for place, server in enumerate(boxed) if server is config), 0),
            None if config.token is None else partial(context.secret, config.token, "token"),
        )
        for config in adapter.mcp_servers
    ]


def _program(config: AgentConfig, boxes: AgentBoxes, base_dir: Path) -> AgentProgram:
    """The program of an adapter. One command runs all the time, so that its wall time is the agent's."""
    values = config.model_dump(exclude={"wall_s", "files"})
    files = {path: local_path(file, base_dir) for path, file in config.files.items()}
    return AgentProgram(**values, files=files, boxes=replace(boxes, limits=replace(boxes.limits, wall_s=config.wall_s)))


def _pool(specs: TaskPlan, examples: DataSource) -> TaskPlan:
    """The plan of the task's few-shot pool: it loads and standardizes the examples, without the task's own limits."""
    # Ids in a config cannot contain a colon.
    name = f"{specs.task_id}:few_shot"
    return replace(
        specs, task_id=name, load=_dataset(name, examples), standardize=standardize_spec(name, examples.dataset)
    )


def _load(task: ResolvedTask, source: DataSource, subset: Subset | None) -> LoadSpec:
    whole = _dataset(task.task.task_id, source)
    # The limit of a subset counts the subset's samples, which preprocess chooses.
    limits = [limit for limit in (whole.limit, None if subset else task.task.max_samples) if limit is not None]
    return replace(
        whole,
        limit=min(limits, default=None),
        shuffle=whole.shuffle if task.task.shuffle is None else task.task.shuffle,
        looks=task.task.stop_when is not None,
        seed=whole.seed if task.task.shuffle_seed is None else task.task.shuffle_seed,
    )


def _dataset(task_id: str, source: DataSource) -> LoadSpec:
    """The spec of load for a dataset."""
    dataset = source.dataset
    params = dataset.params
    return LoadSpec(
        task_id=task_id,
        dataset_id=dataset.dataset_id,
        loader=dataset.loader,
        params=loader_params(dataset),
        base_dir=source.base_dir,
        origin_files=source.origin_files,
        limit=params.limit,
        shuffle=params.shuffle,
        seed=params.seed,
        filter=params.filter,
        sample=params.sample,
    )


def loader_params(dataset: DatasetConfig) -> dict[str, Any]:
    """The loader's parameters: where the data is, and the keys that only this loader knows."""
    sources = {"path": dataset.params.path, "hub": dataset.hub}
    params: dict[str, Any] = {
        **dataset.hub_params,
        **(dataset.params.model_extra or {}),
        **{name: value for name, value in sources.items() if value is not None},
    }
    # All loaders read row by row. Only a hub's loader can do so without downloading the whole set first.
    if dataset.params.streaming and "streaming" in registry.loaders.get(dataset.loader).info.get("params", ()):
        params["streaming"] = True
    return params


def _generate(
    task: ResolvedTask, role: ResolvedRole, role_type: str, context: BackendContext, media: MediaRules | None = None
) -> GenerateSpec:
    adapter, media = role.adapter, media or MediaRules()
    box = _agent_boxes(adapter, context.base_dir, media) if adapter.has_box else None
    servers = _mcp_servers(adapter, context, box)
    return GenerateSpec(
        task_id=task.task.task_id,
        role=role_type,
        adapter_id=adapter.adapter_id,
        backend_type=role.backend.type,
        backend_config=role.backend.config,
        context=context if role.placement is None else replace(context, placement=role.placement),
        prompt=_prompt(role.prompt, adapter.prompt_params) if role.prompt else None,
        params={**adapter.params, **adapter.sampling_params},
        max_error_share=task.task.max_error_share,
        hooks=RoleHooks(adapter.class_path) if adapter.class_path else None,
        tools=tools_of(adapter.tools, box, servers),
        servers=servers,
        boxes=None if box is None else box.boxes,
        media=media,
        tool_rounds=adapter.tool_rounds,
        agent=None if adapter.agent is None or box is None else _program(adapter.agent, box, context.base_dir),
        limits=_episode_limits(adapter, role.backend),
        simulator=adapter.simulator or (SimulatorConfig() if role_type == "user" else None),
        embeds=adapter.embeds,
        pool_size=adapter.resource_requirement.pool_size,
    )


def _pairs(task: TaskConfig, answers_of: AnswersOf | None) -> Pairs | None:
    """Where the other answers of a task's pairs are.

    Raises:
        InputError: another run has no answers, or there are no runs to look at.
    """
    against = task.against
    if against is None:
        return None
    if against.run is None:
        return Pairs(None if against.field is None else compile_path(against.field))
    if answers_of is None:
        raise InputError(f"task '{task.task_id}', against: answers of a run are read where there is a store.")
    return Pairs(run=against.run, responses=answers_of(against.run, against.task or task.task_id))


def _judge(
    task: ResolvedTask, config: PipelineConfig, context: BackendContext, scoring: ScoreSpec, pairs: Pairs | None
) -> JudgeSpec:
    """The task's judge, and the judges that samples may name instead."""
    if task.judge is None:
        return JudgeSpec(task.task.task_id)
    roles = (task.judge, *task.other_judges)
    forms: dict[str, dict[SettledForm, JudgeForm]] = {}
    for role in roles:
        adapter = role.adapter
        judge = replace(_generate(task, role, "judge_model", context, scoring.media), pairs=pairs)
        forms[adapter.adapter_id] = {
            form: _judge_form(judge, adapter, form, config.prompts)
            for form in possible_forms(adapter.verdict, adapter.verdict_labels, judge.model.capabilities)
        }
    retries = {role.adapter.adapter_id: role.adapter.verdict_retries for role in roles}
    panel = tuple(task.task.judges)
    second = task.task.second_judge
    judges = {name: [*possible.values()][-1] for name, possible in forms.items()}
    own, *others = [judge.spec for judge in judges.values()]
    return JudgeSpec(
        task.task.task_id,
        own,
        tuple(others),
        {name: judge.prompts for name, judge in judges.items()},
        {name: judge.parser for name, judge in judges.items()},
        retries,
        panel,
        both_orders=task.task.both_orders,
        draws=task.task.judge_draws,
        rule=_rule(task.task.judge_rule, scoring),
        second=None if second is None else SecondJudge(second.adapter_id, second.below, second.spread),
        unsettled={name: possible for name, possible in forms.items() if len(possible) > 1},
    )


def _rule(config: JudgeRuleConfig | None, scoring: ScoreSpec) -> JudgeRule | None:
    """The rule that decides before judges; None without one."""
    if config is None:
        return None
    metric = next(metric for metric in scoring.metrics if metric.metric_id == config.metric)
    scale = None if config.scale is None else (config.scale[0], config.scale[1])
    return JudgeRule(metric, tuple(config.values), scale, scoring.nameable)


def _judge_form(
    spec: GenerateSpec, adapter: RoleAdapterConfig, form: SettledForm, prompts: Sequence[PromptConfig]
) -> JudgeForm:
    """A judge that is asked for verdicts of a form."""
    labels, params, reader = adapter.verdict_labels, adapter.prompt_params, read_parser(adapter.verdict_parser)
    if labels is not None:
        params = {**params, "verdict": form}
        spec = replace(
            spec, prompt=spec.prompt and replace(spec.prompt, params={**spec.prompt.params, "verdict": form})
        )
    named = {prompt.prompt_id: _prompt(prompt, params) for prompt in prompts}
    if form == "text" or labels is None:
        return JudgeForm(spec, reader, named)
    by_labels = LabelVerdicts(form, labels if isinstance(labels, dict) else dict.fromkeys(labels))
    if adapter.verdict_reasoning:
        question = f"Give your verdict. Answer with one of {', '.join(labels)}, and nothing else."
        return JudgeForm(replace(spec, follow_up=FollowUp(question, by_labels.params)), by_labels, named)
    return JudgeForm(replace(spec, params={**spec.params, **by_labels.params}), by_labels, named)


def _prompt(prompt: PromptConfig, params: Mapping[str, Any]) -> PromptBinding:
    template = prompt.template
    plain: Any = (
        template
        if isinstance(template, str)
        else [{"role": message.role, "content": message.content} for message in template]
    )
    return PromptBinding(prompt.prompt_id, plain, prompt.system_prompt, {**prompt.params, **params})
