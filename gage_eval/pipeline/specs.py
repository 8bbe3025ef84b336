"""The specs of the stages: plain values resolved from a config, and the part of them that goes into keys.

A spec's ``material()`` holds only what determines the stage's result: semantic values, versions of code, identities of
data and models. Names, paths and scheduling are not part of it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, digest, given
from gage_eval.base.errors import InputError
from gage_eval.base.inputs import INPUTS, Input
from gage_eval.base.stages import Stage
from gage_eval.data.datasets.build import build_loader
from gage_eval.data.datasets.origins import OriginPath
from gage_eval.data.datasets.reading import file_name_of
from gage_eval.data.prepare.few_shot import FewShotRules
from gage_eval.data.prepare.media import MediaRules, files_identity, media_in
from gage_eval.data.standardize.callables import MediaCallable, TextCallable
from gage_eval.extend import registry
from gage_eval.pipeline.execution_spec import ExecutionSpec
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.pipeline.keys import scores_document
from gage_eval.pipeline.labels_spec import LabelsSpec
from gage_eval.pipeline.quick import Quick
from gage_eval.pipeline.stopping import StopRule, scores_of
from gage_eval.pipeline.subsets import Subset
from gage_eval.report.model_run import ModelRun
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.overrides import COLUMN, eval_configs, named_metrics, unknown_metrics
from gage_eval.scoring.scorecards.card import CardRule
from gage_eval.stats.early_stop import FIRST_LOOK
from gage_eval.store import Artifact, Store


@dataclass(frozen=True)
class LoadSpec:
    """The records to load, and their source."""

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
    # All rows in one random order, with parts that end where looks do.
    looks: bool = False
    # The files of a pinned origin that must be in the data cache before the source is built.
    origin_files: tuple[OriginPath, ...] = ()

    @cached_property
    def source(self) -> Any:
        """The loader, built."""
        return build_loader(self.loader, self.params, self.base_dir)

    def located(self, lines: Iterable[int]) -> dict[int, tuple[str | None, int]]:
        """The file and the line within it of each line of the source; None where the source is not files.

        Where there are several files they are read again up to the last of the lines.

        Raises:
            InputError: a file is gone or cannot be read.
        """
        wanted, files = sorted(set(lines)), [*map(file_name_of, getattr(self.source, "files", ()))]
        if len(files) < 2 or not wanted:
            return {line: (files[0] if files else None, line) for line in wanted}
        keeps_media = registry.loaders.get(self.loader).info.get("keeps_media", False)
        # Another loader than that of the stages, which may be reading in another thread.
        loader = build_loader(self.loader, self.params, self.base_dir)
        for line, _ in loader.records(lambda *_: "") if keeps_media else loader.records():
            if line >= wanted[-1]:
                break
        starts = getattr(loader, "starts", [])
        if len(starts) == 0:
            return {line: (", ".join(files), line) for line in wanted}
        at = {line: bisect_left(starts, line) - 1 for line in wanted}
        return {line: (files[index], line - starts[index]) for line, index in at.items()}

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
        return {
            "loader": registry.loaders.get(self.loader).identity(),
            "data": data,
            "limit": self.limit,
            "shuffle": {"seed": self.seed} if self.shuffle else None,
            **given(
                filter=self.filter,
                sample=None if self.sample is None else {"size": self.sample, "seed": self.seed},
                looks={"seed": self.seed} if self.looks else None,
            ),
        }


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
    load: LoadSpec | None = None

    @property
    def source_files(self) -> tuple[str, ...]:
        """The files that the records come from, for messages."""
        return () if self.load is None else tuple(getattr(self.load.source, "files", ()))

    def material(self) -> JsonValue:
        return {
            "preprocess": registry.preprocessors.get(self.preprocess).identity(),
            "kwargs": dict(self.kwargs),
            **given(
                callables=[call.identity() for call in self.callables] or None,
                text=self.text and self.text.identity(),
            ),
        }


@dataclass(frozen=True)
class PreprocessSpec:
    """The settings of every request of a task that do not depend on the model.

    Attributes:
        params: sampling parameters of the task.
        replicates: requests of a sample.
        sample_ids: prepare only these samples.
        subset: prepare only the samples of these subjects.
        look: prepare only so many rows, the first of the shuffle.
        quick: prepare only the samples that it draws.
        dataset_id, max_reject_share, on_reject: for messages, and how many samples may be rejected.
        kind: the task's mode.
        choices: what likelihood compares: the options' ``content`` or ``id``.
        target_delimiter: between a question and its answer, where both are text.
        few_shot: examples before each sample; None for those that samples bring along.
        media: where media of the samples are and how they are processed.
        pool_media: the same for the pool of examples.
        lists_options: whether options that no message holds are listed below the question.
    """

    task_id: str
    params: Mapping[str, Any]
    replicates: int = 1
    sample_ids: tuple[str, ...] = ()
    subset: Subset | None = None
    look: int | None = None
    quick: Quick | None = None
    dataset_id: str = ""
    max_reject_share: float = 0.0
    on_reject: str = "fail"
    kind: str = "chat"
    choices: str = "content"
    target_delimiter: str = " "
    few_shot: FewShotRules | None = None
    media: MediaRules = field(default_factory=MediaRules)
    pool_media: MediaRules = field(default_factory=MediaRules)
    lists_options: bool = False

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
            "lists_options": self.lists_options,
            **given(
                look=self.look,
                quick=self.quick and self.quick.material(),
                subset=self.subset and self.subset.material(),
            ),
        }

    def input_material(self, store: Store, inputs: Mapping[str, str]) -> dict[str, JsonValue]:
        """The content of the files that samples and examples name; nothing where they name none."""
        digests = {
            name: files_identity(media_in(store.artifact(inputs[name])), rules)
            for name, rules in (("samples", self.media), ("few_shot", self.pool_media))
            if name in inputs
        }
        return {"files": digests} if any(digests.values()) else {}


@dataclass(frozen=True)
class ScoreSpec:
    """The metrics to compute. Each has its own scores artifact.

    Attributes:
        max_unscored_share: of the rows with an answer, how many a metric may leave without a score; None where
            nothing is refused.
        known: ids and implementations of the config's metrics, those of other tasks too: samples may name them in
            their ``eval_config``.
        execution: how the programs of the answers are run; None where none are.
        media: where the media of the samples are, for metrics that compare them.
    """

    task_id: str
    metrics: tuple[BoundMetric, ...]
    max_unscored_share: float | None = 0.05
    known: frozenset[str] = frozenset()
    execution: ExecutionSpec | None = None
    media: MediaRules = field(default_factory=MediaRules)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of scoring: samples, responses, and everything else that metrics, clusters or slices read.

        Executions are not among them: auto_eval makes them.
        """
        return tuple(source for source in self._read if source.stage != "auto_eval")

    @property
    def executions_read(self) -> tuple[Input, ...]:
        """What metrics, clusters or slices read of executions."""
        return tuple(source for source in self._read if source.stage == "auto_eval")

    @property
    def _read(self) -> tuple[Input, ...]:
        read = {"samples", "responses"}.union(*(metric.inputs | metric.grouping.inputs for metric in self.metrics))
        return tuple(source for source in INPUTS.values() if source.name in read)

    def material(self) -> JsonValue:
        return [{"metric_id": metric.metric_id, "identity": metric.identity()} for metric in self.metrics]

    def named(self, samples: Artifact) -> frozenset[str]:
        """The metrics that samples set parameters for; free where standardize counted no ``eval_config``."""
        return frozenset().union(*map(named_metrics, eval_configs(samples)))

    @cached_property
    def nameable(self) -> frozenset[str]:
        """Names that samples may use for a metric, in addition to those of the registry."""
        return self.known.union(*((metric.metric_id, metric.implementation) for metric in self.metrics))

    def scores_document(
        self, metric: BoundMetric, inputs: Mapping[str, str], samples: Artifact, named: frozenset[str]
    ) -> dict[str, JsonValue]:
        """What determines the key of one metric's scores.

        Args:
            metric: one of the task's.
            inputs: artifact ids by input of auto_eval.
            samples: the artifact of that input.
            named: what `named` gives for it.
        """
        overriding = self.overriding(metric, named)
        document = scores_document(metric, inputs, overriding, own_settings=bool(samples.counts.get(COLUMN)))
        return {**document, **given(files=self._files(metric, samples))}

    def _files(self, metric: BoundMetric, samples: Artifact) -> JsonValue:
        """The content of the files that a metric compares answers with; None where it reads none."""
        addresses = sorted(metric.media_addresses(samples))
        return files_identity((("image_url", address) for address in addresses), self.media) if addresses else None

    def overriding(self, metric: BoundMetric, named: frozenset[str]) -> frozenset[str]:
        """The names in the samples' ``eval_config`` that change this metric's scores."""
        return named & {metric.metric_id, metric.implementation} | unknown_metrics(named, self.nameable)

    def input_material(self, store: Store, inputs: Mapping[str, str]) -> dict[str, JsonValue]:
        """Names in ``eval_config`` that no metric has, files that are compared, how programs are run; or nothing."""
        samples = store.artifact(inputs["samples"])
        unknown = unknown_metrics(self.named(samples), self.nameable)
        files = [self._files(metric, samples) for metric in self.metrics]
        return given(
            unknown_metrics=sorted(unknown) or None,
            files=files if any(files) else None,
            execution=self.execution and self.execution.material(samples),
        )


@dataclass(frozen=True)
class ReportSpec:
    """The names a report shows."""

    task_id: str
    dataset_id: str
    model_name: str
    description: str | None = None
    card: CardRule | None = None
    headline: str | None = None
    labels: LabelsSpec | None = None
    subset: tuple[str, ...] | None = None
    attacks: tuple[int, int] | None = None
    # The official rule of time was used for programs.
    official: bool = False
    # The judges that are like the model under test, each with what is said of it.
    kin: tuple[tuple[str, str], ...] = ()
    # The judges see pairs.
    pairs: bool = False
    # When the task has enough rows, and how many this look has; None for all.
    stop: StopRule | None = None
    look: int | None = None
    # Whether only some samples were drawn.
    quick: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all samples are asked."""
        return self.subset is None and self.look is None and not self.quick

    def material(self) -> JsonValue:
        return {
            "task_id": self.task_id,
            "dataset_id": self.dataset_id,
            "model_name": self.model_name,
            "description": self.description,
            **given(
                card=self.card and self.card.identity(),
                headline=self.headline,
                labels=self.labels and self.labels.material(),
                subset=None if self.subset is None else list(self.subset),
                attacks=None if self.attacks is None else list(self.attacks),
                official=self.official or None,
                kin=[said for _, said in self.kin] or None,
                pairs=self.pairs if self.kin else None,
                stop=self.stop and self.stop.material(),
                quick=self.quick or None,
            ),
        }


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

    @property
    def stop(self) -> StopRule | None:
        """When it has enough rows; None where all are asked."""
        return self.report.stop

    def at_look(self, rows: int | None) -> "TaskPlan":
        """The task with only the first rows of its shuffle; None for all of them."""
        return replace(self, preprocess=replace(self.preprocess, look=rows), report=replace(self.report, look=rows))

    @property
    def first_look(self) -> "TaskPlan":
        """The task as it begins: on all rows, or on those of the first look."""
        return self if self.stop is None else self.at_look(FIRST_LOOK)

    def next_look(self, store: Store, outputs: Mapping[str, Mapping[str, str]]) -> "TaskPlan | None":
        """The task on the rows of its next look; None where no look follows.

        Args:
            store: where its artifacts are.
            outputs: artifact ids by stage and output, of load, standardize and this look's auto_eval.
        """
        if self.stop is None or self.report.look is None:
            return None
        samples, metrics = (
            store.artifact(outputs[stage][name])
            for stage, name in (("standardize", "samples"), ("auto_eval", "metrics"))
        )
        scores = store.artifact(scores_of(metrics, self.stop.metric_id))
        rows = self.stop.next_look(self.report.look, samples, scores, store)
        if rows is None:
            return None
        return self.at_look(rows if rows < store.artifact(outputs["load"]["raw"]).rows else None)

    def check_labels(self, samples: Artifact) -> None:
        """Refuse labels that are about other samples or cannot be used, before a model is asked.

        Args:
            samples: of the task, before some are chosen.

        Raises:
            InputError: no label is about one of the samples, or a label of the samples is not on the scale.
        """
        if self.report.labels is not None:
            is_whole = (self.load.limit, self.load.sample, self.load.filter) == (None,) * 3
            self.report.labels.check(samples, self.task_id, is_whole=is_whole)

    def generate_spec(self, stage: Stage) -> GenerateSpec | None:
        """The spec of the task's own model that a stage asks; None if it asks none."""
        return {"support": self.support, "infer": self.infer, "judge": self.judge.generate}.get(stage)

    @property
    def models(self) -> list[tuple[Stage, GenerateSpec]]:
        """The models that are asked, by stage."""
        specs: list[tuple[Stage, GenerateSpec | None]] = [("support", self.support), ("infer", self.infer)]
        specs.append(("infer", self.infer.user))
        specs += [("judge", judge) for judge in self.judge.judges]
        return [(stage, spec) for stage, spec in specs if spec is not None]

    @property
    def placed(self) -> list[tuple[Stage, GenerateSpec]]:
        """The models that are served on work pools, by stage."""
        return [(stage, spec) for stage, spec in self.models if spec.context.placement is not None]


@dataclass(frozen=True)
class Plan:
    """All tasks of a run."""

    name: str
    tasks: tuple[TaskPlan, ...]

    def models(self, *, identified: bool = False) -> list[ModelRun]:
        """The models that are asked, each role once.

        Args:
            identified: with the identity of each; its files are read for it, unless that was done before.
        """
        tasks: dict[ModelRun, dict[str, None]] = {}
        for task in self.tasks:
            # Judges that only samples name are left out: they may never be asked.
            own = [task.infer] if task.support is None else [task.support, task.infer]
            for spec in [*own, *task.judge.asked]:
                tasks.setdefault(spec.described(identified=identified), {})[task.task_id] = None
        return [model.model_copy(update={"tasks": tuple(names)}) for model, names in tasks.items()]

    def tool_lists(self) -> dict[str, str]:
        """Digests of what MCP servers list, by server; each is asked.

        Raises:
            InputError: one cannot be asked.
        """
        servers = {server.key: server for task in self.tasks for _, spec in task.models for server in spec.servers}
        return {str(server): digest(server.ask()) for server in servers.values()}

    @property
    def every_task(self) -> list[TaskPlan]:
        """The tasks, and the pools of their examples."""
        return [*self.tasks, *(task.pool for task in self.tasks if task.pool)]

    @property
    def origin_files(self) -> list[OriginPath]:
        """The files of pinned origins that its tasks read."""
        return list(dict.fromkeys(file for task in self.every_task for file in task.load.origin_files))

    def task(self, task_id: str) -> TaskPlan:
        """A task by its name, or the pool of one by its own."""
        return next(task for task in self.every_task if task.task_id == task_id)
