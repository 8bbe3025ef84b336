"""What each stage is asked to do: plain values resolved from a config, and what of them goes into keys.

A spec's ``material()`` holds only what determines the stage's result: semantic values, versions of code, identities of
data and models. Names, paths and scheduling are beside it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from gage_eval import registry
from gage_eval.backends.base import Backend, BackendContext, build_backend
from gage_eval.backends.role_hooks import RoleHooks
from gage_eval.canonical import JsonValue, canonical_text, digest
from gage_eval.errors import InputError
from gage_eval.metrics import BoundMetric
from gage_eval.metrics.overrides import COLUMN, named_metrics, unknown_metrics
from gage_eval.planning.judge_overrides import NamedForJudges
from gage_eval.planning.keys import JUDGE_PARSER_VERSION, RENDER_VERSION
from gage_eval.prepare.few_shot import FewShotRules
from gage_eval.prepare.media import MediaRules, files_identity, media_in
from gage_eval.scorecards.card import CardRule
from gage_eval.standardize.callables import MediaCallable, TextCallable
from gage_eval.store import Artifact, Store

_OUTPUTS = {"support": "support_responses", "dut_model": "responses", "judge_model": "judge_responses"}


@dataclass(frozen=True)
class LoadSpec:
    """Which records, from where."""

    task_id: str
    dataset_id: str
    loader: str
    params: Mapping[str, Any]
    base_dir: Path
    limit: int | None = None
    shuffle: bool = False
    seed: int = 0
    filter: JsonValue = None
    sample: int | None = None

    @cached_property
    def source(self) -> Any:
        """The loader, built."""
        return registry.loaders.get(self.loader).obj(dict(self.params), self.base_dir)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Have what the loader refuses say which dataset it is about."""
        try:
            yield
        except InputError as error:
            raise InputError(f"dataset '{self.dataset_id}': {error}") from error

    def material(self) -> JsonValue:
        with self.naming():
            data = self.source.identity()
        material = {
            "loader": registry.loaders.get(self.loader).identity(),
            "data": data,
            "limit": self.limit,
            "shuffle": {"seed": self.seed} if self.shuffle else None,
        }
        if self.filter is not None:
            material["filter"] = self.filter
        if self.sample is not None:
            material["sample"] = {"size": self.sample, "seed": self.seed}
        return material


@dataclass(frozen=True)
class StandardizeSpec:
    """How a record becomes a Sample."""

    task_id: str
    dataset_id: str
    preprocess: str
    kwargs: Mapping[str, Any]
    max_reject_share: float = 0.0
    on_reject: str = "fail"
    callables: tuple[MediaCallable, ...] = ()
    text: TextCallable | None = None

    def material(self) -> JsonValue:
        material: dict[str, JsonValue] = {
            "preprocess": registry.preprocessors.get(self.preprocess).identity(),
            "kwargs": dict(self.kwargs),
        }
        if self.callables:
            material["callables"] = [one.identity() for one in self.callables]
        if self.text is not None:
            material["text"] = self.text.identity()
        return material


@dataclass(frozen=True)
class PreprocessSpec:
    """What every request of the task carries, whatever the model.

    Attributes:
        params: sampling parameters of the task.
        replicates: requests of a sample.
        sample_ids: prepare only these samples.
        dataset_id, max_reject_share, on_reject: for messages, and how many samples may be rejected.
        kind: chat, completion, likelihood or chat_likelihood.
        choices: what likelihood compares: the options' ``content`` or ``id``.
        target_delimiter: between a question and its answer, where both are text.
        few_shot: examples before each sample; None for those that samples bring along.
        media: where media of the samples lie and what becomes of them.
        pool_media: the same for the pool of examples.
    """

    task_id: str
    params: Mapping[str, Any]
    replicates: int = 1
    sample_ids: tuple[str, ...] = ()
    dataset_id: str = ""
    max_reject_share: float = 0.0
    on_reject: str = "fail"
    kind: str = "chat"
    choices: str = "content"
    target_delimiter: str = " "
    few_shot: FewShotRules | None = None
    media: MediaRules = field(default_factory=MediaRules)
    pool_media: MediaRules = field(default_factory=MediaRules)

    def material(self) -> JsonValue:
        few_shot = self.few_shot
        return {
            "params": dict(self.params),
            "replicates": self.replicates,
            "sample_ids": list(self.sample_ids),
            "kind": self.kind,
            "choices": self.choices,
            "target_delimiter": self.target_delimiter,
            "few_shot": few_shot.material() if few_shot else None,
            # The examples of a sample are drawn by this name, among others.
            "drawn_by": self.task_id if few_shot and few_shot.draws else None,
            "media": self.media.material(),
            "pool_media": self.pool_media.material() if few_shot and few_shot.pool is not None else None,
        }

    def files(self, store: Store, inputs: Mapping[str, str]) -> JsonValue:
        """What the files hold that the samples and the examples name; None where they name none."""
        found = {
            name: files_identity(media_in(store.artifact(inputs[name])), rules)
            for name, rules in (("samples", self.media), ("few_shot", self.pool_media))
            if name in inputs
        }
        return found if any(found.values()) else None


@dataclass(frozen=True)
class PromptBinding:
    """A prompt template bound to a role, with its parameters merged."""

    prompt_id: str
    template: Any
    system_prompt: str | None
    params: Mapping[str, Any]

    @property
    def reads_extras(self) -> bool:
        """Whether it may show ``extras``: the adapter's id and role."""
        return "extras" in canonical_text([self.template, self.system_prompt])

    @property
    def reads_support(self) -> bool:
        """Whether it may show ``payload.support_output``."""
        return "support_output" in canonical_text([self.template, self.system_prompt])

    def material(self) -> JsonValue:
        return {"template": self.template, "system_prompt": self.system_prompt, "params": dict(self.params)}


@dataclass(frozen=True)
class GenerateSpec:
    """render(role) → generate: which model is asked, with what prompt and parameters."""

    task_id: str
    role: str
    adapter_id: str
    backend_type: str
    backend_config: Mapping[str, Any]
    context: BackendContext
    prompt: PromptBinding | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    max_error_share: float = 0.01
    hooks: RoleHooks | None = None
    tool_rounds: int = 0
    pool_size: int | None = None
    # Of a judge: the config's prompts and the ids of its judges, any of which a sample may name for itself.
    prompts: Mapping[str, PromptBinding] = field(default_factory=dict)
    judges: tuple[str, ...] = ()
    # Of a judge: it is asked only about samples that name it.
    on_demand: bool = False

    @cached_property
    def model(self) -> Backend:
        """The backend, built and not opened: it answers for its identity and capabilities."""
        return build_backend(self.backend_type, self.backend_config, self.context)

    @property
    def reads_samples(self) -> bool:
        """Whether rendering needs more of a sample than its prepared row."""
        hooked = self.hooks is not None and self.hooks.prepares
        return self.prompt is not None or hooked or self.tool_rounds > 0 or self.model.lookup_field is not None

    @property
    def reads_support(self) -> bool:
        """Whether a judge's prompt, or one that a sample may name, may show the support model's answer."""
        hooked = self.hooks is not None and self.hooks.prepares
        prompts = [*self.prompts.values(), *([self.prompt] if self.prompt else [])]
        return hooked or any(prompt.reads_support for prompt in prompts)

    @property
    def output(self) -> str:
        """Name of the output that holds the responses."""
        return f"judge_{self.adapter_id}_responses" if self.on_demand else _OUTPUTS[self.role]

    def work_key(self, key: str) -> str:
        """Key of the work in progress: that of the stage's; a judge on demand has one of its own."""
        return digest([key, self.adapter_id]) if self.on_demand else key

    @cached_property
    def model_material(self) -> JsonValue:
        """What determines the model's answers; the code of a plug-in counts, whatever its class inherits."""
        plugin = registry.backends.get(self.backend_type)
        own = self.model.identity()
        return own if plugin.origin == "builtin" else {"plugin": plugin.identity(), "model": own}

    @cached_property
    def model_identity(self) -> str:
        """Digest of the model's identity, the first component of every response key."""
        return digest(self.model_material)

    def material(self) -> JsonValue:
        material: dict[str, JsonValue] = {
            "render": RENDER_VERSION,
            "role": self.role,
            "model": self.model_material,
            "prompt": self.prompt.material() if self.prompt else None,
            "params": dict(self.params),
        }
        if self.prompt is not None and self.prompt.reads_extras:
            material["adapter_id"] = self.adapter_id
        if self.hooks is not None:
            material["hooks"] = self.hooks.identity()
        if self.tool_rounds:
            material["tool_rounds"] = self.tool_rounds
        return material


@dataclass(frozen=True)
class JudgeSpec:
    """The judge's render → generate, and the parser of its verdict; no `generate` means no judge.

    Attributes:
        others: the config's other judges, each asked about the samples that name it in their ``eval_config``.
    """

    task_id: str
    generate: GenerateSpec | None = None
    others: tuple[GenerateSpec, ...] = ()

    @property
    def every(self) -> tuple[GenerateSpec, ...]:
        """The judge and the others; none without a judge."""
        return () if self.generate is None else (self.generate, *self.others)

    @property
    def reads_support(self) -> bool:
        """Whether a judge may see the support model's answer."""
        return any(judge.reads_support for judge in self.every)

    def asked(self, samples: Artifact) -> tuple[GenerateSpec, ...]:
        """The judge, and of the others those that samples name."""
        return self._asked(_named_for_judges(samples) if self.others else NamedForJudges())

    def _asked(self, named: NamedForJudges) -> tuple[GenerateSpec, ...]:
        return tuple(judge for judge in self.every if not judge.on_demand or judge.adapter_id in named.adapters)

    def material(self) -> JsonValue:
        if self.generate is None:
            return None
        return {"generate": self.generate.material(), "parser": JUDGE_PARSER_VERSION}

    def files(self, store: Store, inputs: Mapping[str, str]) -> JsonValue:
        """The judges and prompts that samples name; None where they name none."""
        if self.generate is None:
            return None
        named = _named_for_judges(store.artifact(inputs["samples"]))
        prompts = sorted(named.prompts)
        material: dict[str, JsonValue] = {}
        if prompts:
            material["prompts"] = _prompts(self.generate, prompts)
        others = {
            judge.adapter_id: {"generate": judge.material(), "prompts": _prompts(judge, prompts)}
            for judge in self._asked(named)
            if judge.on_demand
        }
        unknown = named.adapters - set(self.generate.judges)
        if others or unknown:
            material["judges"] = {**others, **dict.fromkeys(sorted(unknown))}
        return material or None


@dataclass(frozen=True)
class ScoreSpec:
    """Which metrics; each has a scores artifact of its own.

    Attributes:
        max_unscored_share: of the rows with an answer, how many a metric may leave without a score.
        known: ids and implementations of the config's metrics, those of other tasks too: samples may name them in
            their ``eval_config``.
    """

    task_id: str
    metrics: tuple[BoundMetric, ...]
    max_unscored_share: float = 0.05
    known: frozenset[str] = frozenset()

    @property
    def reads_judgments(self) -> bool:
        return any(metric.reads_judgments or metric.grouping.reads_judgments for metric in self.metrics)

    @property
    def reads_telemetry(self) -> bool:
        return any(metric.reads_telemetry or metric.grouping.reads_telemetry for metric in self.metrics)

    def material(self) -> JsonValue:
        return [{"metric_id": metric.metric_id, "identity": metric.identity()} for metric in self.metrics]

    def named(self, samples: Artifact) -> frozenset[str]:
        """The metrics that samples set parameters for; free where standardize counted no ``eval_config``."""
        return frozenset().union(*map(named_metrics, _eval_configs(samples)))

    @cached_property
    def nameable(self) -> frozenset[str]:
        """What samples may call a metric, beside the names of the registry."""
        return self.known.union(*((metric.metric_id, metric.implementation) for metric in self.metrics))

    def overriding(self, metric: BoundMetric, named: frozenset[str]) -> frozenset[str]:
        """Of the names in the samples' ``eval_config`` those that change its scores: its own, and no metric's."""
        return named & {metric.metric_id, metric.implementation} | unknown_metrics(named, self.nameable)

    def files(self, store: Store, inputs: Mapping[str, str]) -> JsonValue:
        """The names in the samples' ``eval_config`` that no metric has; None without any."""
        return sorted(unknown_metrics(self.named(store.artifact(inputs["samples"])), self.nameable)) or None


def _named_for_judges(samples: Artifact) -> NamedForJudges:
    return NamedForJudges.of(text for texts in _eval_configs(samples) for text in texts)


def _prompts(judge: GenerateSpec, names: Iterable[str]) -> JsonValue:
    """What determines some prompts under a judge's parameters; None for one that is not there."""
    return {name: judge.prompts[name].material() if name in judge.prompts else None for name in names}


def _eval_configs(samples: Artifact) -> Iterator[list[str | None]]:
    """The different ``eval_config`` of samples, part by part; free where standardize counted none."""
    if samples.counts.get(COLUMN):
        for table in samples.tables(columns=[COLUMN]):
            yield pc.unique(table.column(COLUMN)).to_pylist()


@dataclass(frozen=True)
class ReportSpec:
    """The names a report shows."""

    task_id: str
    dataset_id: str
    model_name: str
    description: str | None = None
    card: CardRule | None = None

    def material(self) -> JsonValue:
        material: dict[str, JsonValue] = {
            "task_id": self.task_id,
            "dataset_id": self.dataset_id,
            "model_name": self.model_name,
            "description": self.description,
        }
        if self.card is not None:
            material["card"] = self.card.identity()
        return material


@dataclass(frozen=True)
class TaskPlan:
    """One task's seven stages, resolved."""

    task_id: str
    load: LoadSpec
    standardize: StandardizeSpec
    preprocess: PreprocessSpec
    support: GenerateSpec | None
    infer: GenerateSpec
    judge: JudgeSpec
    auto_eval: ScoreSpec
    report: ReportSpec
    # A task whose load and standardize make the few-shot examples; its other stages are never called.
    pool: "TaskPlan | None" = None


@dataclass(frozen=True)
class Plan:
    """All tasks of a run."""

    name: str
    tasks: tuple[TaskPlan, ...]

    def task(self, task_id: str) -> TaskPlan:
        """A task by its name, or the pool of one by its own."""
        every = [*self.tasks, *(task.pool for task in self.tasks if task.pool)]
        return next(task for task in every if task.task_id == task_id)
