"""The pass that resolves the references of each task and reports unknown names.

A resolved task has its dataset, the adapters of its steps with their backends and prompts, and its metrics. The rules
(`gage_eval.config.rules`) have filled in before what a config leaves out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.models import (
    BackendEntry,
    ConfigModel,
    DatasetConfig,
    MetricConfig,
    PipelineConfig,
    PromptConfig,
    RoleAdapterConfig,
    RoleType,
    StepConfig,
    StepName,
    StepsConfig,
    TaskConfig,
)
from gage_eval.config.problems import ConfigProblem, Loc, path_text, unknown
from gage_eval.config.resources import placement_of, with_gpus, with_pool
from gage_eval.config.rules import ADAPTER_KEY, ROLE_OF_STEP
from gage_eval.config.scoring_profiles import ScoringProfile, load_profile
from gage_eval.config.task_metrics import metrics_of
from gage_eval.models.backends.placement import Placement

S = TypeVar("S", bound=ConfigModel)


@dataclass(frozen=True)
class ResolvedRole:
    """An adapter with its backend and prompt.

    Attributes:
        adapter: the role adapter.
        backend: its backend. An inline backend has the adapter's id as ``backend_id``.
        prompt: its prompt; None if it sends the sample's own messages.
        placement: the work pool that serves its engine; None if the run itself does.
    """

    adapter: RoleAdapterConfig
    backend: BackendEntry
    prompt: PromptConfig | None
    placement: Placement | None = None


@dataclass(frozen=True)
class ResolvedTask:
    """A task with everything it refers to. ``steps`` are in the order of the config, ids filled in.

    ``other_judges`` are the config's other judges, which samples may name.
    """

    task: TaskConfig
    dataset: DatasetConfig
    # The dataset of few-shot examples; None for those in the sample itself.
    examples: DatasetConfig | None
    dut: ResolvedRole
    judge: ResolvedRole | None
    support: ResolvedRole | None
    user: ResolvedRole | None
    other_judges: tuple[ResolvedRole, ...]
    metrics: tuple[MetricConfig, ...]
    steps: tuple[StepConfig, ...]
    # How its answers are scored; None without an answer type.
    profile: ScoringProfile | None = None


@dataclass(frozen=True)
class Resolution:
    """The resolved references of a config.

    Attributes:
        problems: those of the references.
        warnings: things that work but are probably not intended.
        roles: adapters by id; None for an adapter that refers to something unknown.
        tasks: the tasks that could be resolved, by index in the config.
    """

    problems: Sequence[ConfigProblem]
    warnings: Sequence[str]
    roles: Mapping[str, ResolvedRole | None]
    tasks: Mapping[int, ResolvedTask]


def resolve(config: PipelineConfig, base_dir: Path | None = None) -> Resolution:
    """Resolve the tasks of a config, after the rules were applied.

    Args:
        config: a valid config.
        base_dir: the folder that relative paths of the config start from.
    """
    resolver = _Resolver(config, base_dir)
    tasks = resolver.run()
    return Resolution(tuple(resolver.problems), resolver.warnings, resolver.roles, tasks)


@dataclass
class _Resolver:
    config: PipelineConfig
    base_dir: Path | None = None
    problems: dict[ConfigProblem, None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def run(self) -> dict[int, ResolvedTask]:
        config = self.config
        if not config.datasets:
            self._add(("datasets",), "a config needs at least one dataset.")
        if config.builtin is not None and config.custom is not None:
            self._add(("custom",), "steps are given in both 'builtin' and 'custom'; remove one.")
        self.datasets = self._by_id(("datasets",), config.datasets, lambda spec: spec.dataset_id)
        self.backends = self._by_id(("backends",), config.backends, lambda spec: spec.backend_id)
        self.prompts = self._by_id(("prompts",), config.prompts, lambda spec: spec.prompt_id)
        adapters = self._by_id(("role_adapters",), config.role_adapters, lambda spec: spec.adapter_id)
        tasks = self._by_id(("tasks",), config.tasks, lambda spec: spec.task_id)
        self._by_id(("metrics",), config.metrics, lambda spec: spec.metric_id)
        self._groups(tasks)
        # None: the adapter exists, but refers to something unknown, which has been reported.
        self.roles: dict[str, ResolvedRole | None] = {
            spec.adapter_id: self._role(index, spec)
            for index, spec in enumerate(config.role_adapters)
            if adapters[spec.adapter_id] is spec
        }
        return {index: task for index, spec in enumerate(config.tasks) if (task := self._task(index, spec)) is not None}

    def _add(self, loc: Loc, message: str, cause: BaseException | None = None) -> None:
        self.problems.setdefault(ConfigProblem(loc, message, cause))

    def _by_id(self, loc: Loc, specs: Sequence[S], id_of: Callable[[S], str]) -> dict[str, S]:
        first: dict[str, int] = {}
        for index, spec in enumerate(specs):
            taken = first.setdefault(id_of(spec), index)
            if taken != index:
                message = f"the id '{id_of(spec)}' is taken by {path_text((*loc, taken))}; give each its own."
                self._add((*loc, index), message)
        return {name: specs[index] for name, index in first.items()}

    def _groups(self, tasks: Mapping[str, TaskConfig]) -> None:
        self._by_id(("groups",), self.config.groups, lambda spec: spec.group_id)
        for index, group in enumerate(self.config.groups):
            for position, name in enumerate(group.tasks):
                if name not in tasks:
                    self._add(("groups", index, "tasks", position), unknown("task", name, tasks))
                elif name in group.tasks[:position]:
                    self._add(
                        ("groups", index, "tasks", position), f"the task '{name}' is in the group twice; keep one."
                    )
            metrics = [
                *self.config.metrics,
                *(metric for task in self.config.tasks for metric in task.metric_overrides),
            ]
            known = [metric.metric_id for metric in metrics]
            for position, name in enumerate(group.metrics):
                if name not in known:
                    self._add(("groups", index, "metrics", position), unknown("metric", name, dict.fromkeys(known)))
            fields = dict.fromkeys(field for metric in metrics for field in metric.slices)
            if group.by is not None and group.by not in fields:
                self._add(
                    ("groups", index, "by"),
                    f"{unknown('field of slices', group.by, fields)} Name one of a metric's 'slices'.",
                )

    def _role(self, index: int, adapter: RoleAdapterConfig) -> ResolvedRole | None:
        loc: Loc = ("role_adapters", index)
        backend = self._backend(loc, adapter)
        prompt = None
        if adapter.prompt_id is not None:
            prompt = self.prompts.get(adapter.prompt_id)
            if prompt is None:
                self._add((*loc, "prompt_id"), unknown("prompt", adapter.prompt_id, self.prompts))
                return None
            if adapter.role_type == "user" and not (prompt.template or prompt.system_prompt):
                self._add((*loc, "prompt_id"), f"prompt '{prompt.prompt_id}' is empty: write the user's instructions.")
        return None if backend is None else self._with_resources(loc, adapter, backend, prompt)

    def _with_resources(
        self, loc: Loc, adapter: RoleAdapterConfig, backend: BackendEntry, prompt: PromptConfig | None
    ) -> ResolvedRole:
        """The role with the engines or pool that its GPUs allow. The GPUs of all adapters of the backend count."""
        sharing = [
            other
            for other in self.config.role_adapters
            if other is adapter or (adapter.backend is other.backend is None and other.backend_id == backend.backend_id)
        ]
        try:
            backend, adapter = with_gpus(backend, sharing), with_pool(adapter, backend)
        except InputError as error:
            self._add((*loc, "resource_requirement", "gpus"), str(error), error)
        placement = None
        try:
            placement = placement_of(backend, sharing)
        except InputError as error:
            self._add((*loc, "resource_requirement", "work_pool"), str(error), error)
        return ResolvedRole(adapter, backend, prompt, placement)

    def _backend(self, loc: Loc, adapter: RoleAdapterConfig) -> BackendEntry | None:
        if adapter.backend is not None:
            if adapter.backend_id is not None:
                self.warnings.append(
                    f"{path_text(loc)}: 'backend' and 'backend_id' are both given; "
                    f"the inline backend is used, not '{adapter.backend_id}'."
                )
            inline = adapter.backend
            return BackendEntry(backend_id=adapter.adapter_id, type=inline.type, config=inline.config)
        if adapter.simulator is not None and adapter.simulator.script is not None:
            # Its model is never asked.
            return BackendEntry(backend_id=adapter.adapter_id, type="dummy")
        if adapter.backend_id is not None:
            if adapter.backend_id not in self.backends:
                self._add((*loc, "backend_id"), unknown("backend", adapter.backend_id, self.backends))
            return self.backends.get(adapter.backend_id)
        self._add(loc, f"adapter '{adapter.adapter_id}' needs a 'backend_id' ({_names(self.backends)}).")
        return None

    def _task(self, index: int, task: TaskConfig) -> ResolvedTask | None:
        loc: Loc = ("tasks", index)
        dataset = self.datasets.get(task.dataset_id)
        if dataset is None:
            self._add((*loc, "dataset_id"), unknown("dataset", task.dataset_id, self.datasets))
        examples = self._examples((*loc, "few_shot"), task)
        profile = self._profile(loc, task)
        self._by_id((*loc, "metric_overrides"), task.metric_overrides, lambda spec: spec.metric_id)
        metrics, warnings = metrics_of(self.config, task, profile)
        self.warnings += [f"{path_text((*loc, *position))}: {text}" for position, text in warnings]
        self._parse_schema((*loc, "parse_schema"), task)
        steps_loc, steps = self._steps(loc, task)
        roles: dict[StepName, ResolvedRole | None] = {}
        filled: list[StepConfig] = []
        for position, step in enumerate(steps):
            if step.step not in ROLE_OF_STEP:
                filled.append(step)
                continue
            if step.step in roles:
                self._add((*steps_loc, position), f"the step '{step.step}' comes twice; a task has one of each.")
                continue
            is_panel = step.step == "judge" and bool(task.judges)
            adapter_id = (
                self._panel((*loc, "judges"), task.judges)
                if is_panel
                else self._bind(loc, (*steps_loc, position), task, step)
            )
            roles[step.step] = self.roles.get(adapter_id) if adapter_id is not None else None
            filled.append(step.model_copy(update={"adapter_id": adapter_id}))
        if "inference" not in roles:
            self._add(steps_loc, "the steps lack 'inference'; every task asks a model.")
        for name, key in ADAPTER_KEY.items():
            if getattr(task, key) is not None and name not in roles:
                self._add((*loc, key), f"the task's steps have no '{name}'; add the step or remove '{key}'.")
        dut = roles.get("inference")
        if dataset is None or dut is None:
            return None
        judge, support = roles.get("judge"), roles.get("support")
        others = self._other_judges(judge)
        user = self._user((*loc, "user"), task, dut)
        return ResolvedTask(task, dataset, examples, dut, judge, support, user, others, metrics, tuple(filled), profile)

    def _user(self, loc: Loc, task: TaskConfig, dut: ResolvedRole) -> ResolvedRole | None:
        if task.user is None:
            return None
        fitting = [spec.adapter_id for spec in self.config.role_adapters if spec.role_type == "user"]
        if task.user not in fitting:
            self._add(loc, unknown("simulated user", task.user, fitting))
            return None
        if task.mode != "chat":
            self._add(loc, f"a user talks with a model, and this task has mode: {task.mode}; remove one.")
        if dut.adapter.agent is not None:
            self._add(loc, f"the agent of '{dut.adapter.adapter_id}' is a program, which no user talks with.")
        return self.roles.get(task.user)

    def _other_judges(self, judge: ResolvedRole | None) -> tuple[ResolvedRole, ...]:
        if judge is None:
            return ()
        every = (role for role in self.roles.values() if role is not None and role.adapter.role_type == "judge_model")
        return tuple(role for role in every if role is not judge)

    def _examples(self, loc: Loc, task: TaskConfig) -> DatasetConfig | None:
        few_shot = task.few_shot
        if few_shot is None:
            return None
        if task.mode != "chat" and few_shot.form == "chat":
            self._add((*loc, "form"), f"a {task.mode} request is one text, so its examples are: remove 'form: chat'.")
        name = few_shot.dataset_id
        if name is not None and name not in self.datasets:
            self._add((*loc, "dataset_id"), unknown("dataset", name, self.datasets))
        return None if name is None else self.datasets.get(name)

    def _steps(self, loc: Loc, task: TaskConfig) -> tuple[Loc, Sequence[StepConfig]]:
        """The location of a task's steps, and the steps."""
        if task.steps is None:
            for section in ("custom", "builtin"):
                shared: StepsConfig | None = getattr(self.config, section)
                if shared is not None:
                    return (section, "steps"), shared.steps
        return (*loc, "steps"), task.steps or ()

    def _bind(self, task_loc: Loc, step_loc: Loc, task: TaskConfig, step: StepConfig) -> str | None:
        """The id of the adapter of a step; None if it is unknown, which has been reported."""
        role = ROLE_OF_STEP[step.step]
        key = ADAPTER_KEY[step.step]
        of_task: str | None = getattr(task, key)
        # The task's own adapter overrides that of shared steps.
        if of_task is not None:
            loc, name = (*task_loc, key), of_task
        elif step.adapter_id is not None:
            loc, name = (*step_loc, "adapter_id"), step.adapter_id
        else:
            self._no_adapter(task_loc, role, key)
            return None
        fitting = [adapter.adapter_id for adapter in self.config.role_adapters if adapter.role_type == role]
        if name not in self.roles:
            self._add(loc, unknown("adapter", name, fitting))
            return None
        if name not in fitting:
            self._add(loc, f"adapter '{name}' is not a {role}; the step '{step.step}' needs one ({_names(fitting)}).")
            return None
        return name

    def _panel(self, loc: Loc, judges: Sequence[str]) -> str | None:
        """The id of the first judge of a panel; None if one is unknown, which has been reported."""
        fitting = [spec.adapter_id for spec in self.config.role_adapters if spec.role_type == "judge_model"]
        wrong = [(position, name) for position, name in enumerate(judges) if name not in fitting]
        for position, name in wrong:
            self._add((*loc, position), unknown("judge", name, fitting))
        return None if wrong else judges[0]

    def _no_adapter(self, task_loc: Loc, role: RoleType, key: str) -> None:
        fitting = [adapter.adapter_id for adapter in self.config.role_adapters if adapter.role_type == role]
        if fitting:
            self._add(task_loc, f"{len(fitting)} adapters are {role} ({_names(fitting)}); say which with '{key}'.")
        elif role != "dut_model" or self.config.role_adapters:
            self._add(("role_adapters",), f"no adapter has role_type '{role}', and a step needs one.")
        else:
            self._add(("backends",), "a config needs a model: add one under 'backends'.")

    def _profile(self, loc: Loc, task: TaskConfig) -> ScoringProfile | None:
        profile_loc = (*loc, "scoring_profile")
        if task.answer_type is None:
            if task.scoring_profile is not None:
                self._add(profile_loc, "a profile scores by 'answer_type': add it, or remove the profile.")
            return None
        try:
            return load_profile(task.scoring_profile, self.base_dir)
        except ConfigError as error:
            for sentence in error.sentences():
                self._add(profile_loc, sentence, error)
        except InputError as error:
            self._add(profile_loc, str(error), error)
        return None

    def _parse_schema(self, loc: Loc, task: TaskConfig) -> None:
        names = [item.field.casefold() for item in task.parse_schema]
        for position, name in enumerate(names):
            if name in names[:position]:
                self._add((*loc, position, "field"), f"the field '{task.parse_schema[position].field}' is there twice.")


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "there is none"
