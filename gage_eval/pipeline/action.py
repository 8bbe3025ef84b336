"""The steps that all stages share: the key of an action, the hit or the computation, and the commit.

A stage is a function ``body(run, spec) -> None`` that reads ``run.input(...)`` and writes
``run.writer(...)``. The decorator turns it into ``stage(env, spec, **inputs) -> StageResult``: the key is the
digest of the stage, its version, the spec's material and the ids of the input artifacts. If a complete action has
this key, it is a hit, and nothing is computed.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, field, replace
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import pyarrow as pa

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import InputError, RunCancelled
from gage_eval.base.stages import Stage, StageResult
from gage_eval.base.tables import TableSchema
from gage_eval.engine.job import SupersededByOtherRun
from gage_eval.observability.events import (
    PartWritten,
    RunWarning,
    StageFailed,
    StageFinished,
    StageProgress,
    StageStarted,
)
from gage_eval.observability.observer import Observer
from gage_eval.observability.sample_events import Sampling
from gage_eval.pipeline.keys import StageSpec, action_document, has_outputs_of, input_id
from gage_eval.store import Action, Artifact, ArtifactWriter, PartInfo, Store

if TYPE_CHECKING:
    from gage_eval.scoring.metrics.processes import ScoringProcesses

SpecT = TypeVar("SpecT", bound=StageSpec)

# The stages whose answers a run that only judges takes as they are.
_BEFORE_JUDGES: frozenset[Stage] = frozenset({"support", "infer"})
# A longer wait for a lock is reported.
_PATIENCE_S = 5.0


@dataclass
class StageContext:
    """What stages need from their run. Nothing here determines a result.

    Attributes:
        store: where artifacts are stored.
        runtime: the loop, sessions and engines of the run (`gage_eval.engine.runtime.Runtime`).
        observer: receives the events of stages.
        run_id: the run's name.
        sampling: which samples have events of their own.
        resume_command: the command that resumes the run, for messages.
        judge_command: the command that asks judges for the verdicts that are missing.
        model_by_options: options of the command name the model; a resumed run has the same ones.
        refresh: (task id, stage) pairs to compute again although they are stored.
        without_verdict: response keys for which a judge is asked again, by the id of the judgments without a verdict.
        only_errors: ask again only for rows that ended in error; refuse to compute anything new.
        judge_only: take stored answers as they are, those with errors too, and refuse to ask for new ones.
        verify: check the hashes of every part of a hit, not only its size.
        max_inflight: most requests of a stage in flight; None for the backends' own limits.
        prefetch_factor: requests that are rendered ahead, as a multiple of those in flight; None for the default.
        media_threads: number of media that are read or stored at once; 0 for the default.
        processes: score; None if this process does.
        cancelled: any thread may set it to end the run: no stage starts, and running stages end soon.
    """

    store: Store
    runtime: Any
    observer: Observer
    run_id: str
    sampling: Sampling = field(default_factory=Sampling)
    resume_command: str = "gage resume RUN"
    judge_command: str = "gage judge RUN --only-failed"
    model_by_options: bool = False
    refresh: frozenset[tuple[str, str]] = frozenset()
    without_verdict: Mapping[str, frozenset[str]] = field(default_factory=dict)
    only_errors: bool = False
    judge_only: bool = False
    verify: bool = False
    max_inflight: int | None = None
    prefetch_factor: int | None = None
    media_threads: int = 0
    processes: "ScoringProcesses | None" = None
    cancelled: Event = field(default_factory=Event)

    def again(self, stage: Stage) -> str:
        """The command that asks a stage's model for what is missing."""
        return self.judge_command if stage == "judge" else self.resume_command

    def check(self) -> None:
        """Raise `RunCancelled` if the run is cancelled."""
        if self.cancelled.is_set():
            raise RunCancelled("the run was cancelled")


@dataclass(eq=False)
class StageRun:
    """One computation of a stage: its inputs (artifact ids by name), its outputs, its progress."""

    env: StageContext
    stage: Stage
    task_id: str
    key: str
    inputs: Mapping[str, str]
    _: KW_ONLY
    refreshing: bool
    previous: Action | None
    counts: Counter[str] = field(default_factory=Counter)
    outputs: dict[str, Artifact] = field(default_factory=dict)
    _writers: dict[str, ArtifactWriter] = field(default_factory=dict)
    _afterwards: list[Callable[[], None]] = field(default_factory=list)

    @property
    def work_key(self) -> str:
        """Key of the work in progress. A refresh has another key, so that it finds no earlier answers."""
        return digest([self.key, self.env.run_id]) if self.refreshing else self.key

    @property
    def ask_again(self) -> frozenset[str]:
        """Keys of the earlier result's responses that are asked again, although they are answers."""
        judgments = None if self.previous is None else self.previous.outputs.get("judgments")
        return self.env.without_verdict.get(judgments or "", frozenset())

    def input(self, name: str) -> Artifact:
        """The input artifact with this name."""
        return self.env.store.artifact(self.inputs[name])

    def has_input(self, name: str) -> bool:
        return name in self.inputs

    def writer(self, schema: TableSchema, name: str | None = None) -> ArtifactWriter:
        """The writer of an output. By default, the output has the name of its table."""
        output = name or schema.name
        if output not in self._writers:
            self._writers[output] = self.new_writer(schema, output)
        return self._writers[output]

    def new_writer(self, schema: TableSchema, output: str) -> ArtifactWriter:
        """Begin an artifact of this stage; each of its parts is an event under the output's name."""

        def wrote(part: PartInfo) -> None:
            self.env.observer.emit(PartWritten(self.task_id, self.stage, output, part.index, part.rows))

        return self.env.store.writer(schema, wrote)

    def commit(
        self,
        schema: TableSchema,
        *,
        name: str | None = None,
        complete: bool = True,
        counts: Mapping[str, int] | None = None,
    ) -> Artifact:
        """Commit the rows written for an output. By default, the output has the name of its table."""
        output = name or schema.name
        artifact = self._writers.pop(output).commit(complete=complete, counts=dict(counts or {}))
        self.outputs[output] = artifact
        return artifact

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call this after the stage's action is committed."""
        self._afterwards.append(action)

    def progress(self, done: int, total: int | None, **figures: int | float) -> None:
        """Report the stage's progress, from any thread."""
        self.env.observer.emit(StageProgress(self.task_id, self.stage, done, total, figures))

    def advance(self, done: int, total: int | None) -> None:
        """Report progress from the stage's own loop; raises `RunCancelled` in a cancelled run."""
        self.env.check()
        self.progress(done, total)

    def abort(self) -> None:
        """Drop what was written and not committed."""
        for writer in self._writers.values():
            writer.abort()
        self._writers.clear()

    def finish(self) -> None:
        for action in self._afterwards:
            action()


StageFunction = Callable[..., StageResult]
Body = Callable[[StageRun, SpecT], None]


@dataclass(frozen=True)
class StageInfo:
    """The name of a stage and the function that computes it."""

    name: Stage
    body: Callable[[StageRun, Any], None]
    check: Callable[[StageContext, Any, StageResult], None] | None = None
    settle: Callable[[StageContext, Any, Mapping[str, str]], Any] | None = None


ALL: dict[Stage, StageInfo] = {}


def stage(
    name: Stage,
    *,
    check: Callable[[StageContext, SpecT, StageResult], None] | None = None,
    settle: Callable[[StageContext, SpecT, Mapping[str, str]], SpecT] | None = None,
) -> Callable[[Body[SpecT]], StageFunction]:
    """Decorator: ``body(run, spec)`` becomes a stage with key, hit and commit.

    ``check`` checks every committed result, cached or computed: a user's limit decides whether the run
    continues, never what is computed. ``settle`` returns the spec with what only the run can find out; the key comes
    after it.
    """

    def decorate(body: Body[SpecT]) -> StageFunction:
        info = StageInfo(name, body, check, settle)
        ALL[name] = info

        def call(env: StageContext, spec: SpecT, **inputs: StageResult | None) -> StageResult:
            return run_stage(info, env, spec, _ids(inputs))

        call.__name__ = call.__qualname__ = name
        call.__doc__ = body.__doc__
        return call

    return decorate


def run_stage(info: StageInfo, env: StageContext, spec: StageSpec, inputs: Mapping[str, str]) -> StageResult:
    """Return the cached result of this stage, spec and inputs, or compute and commit it."""
    env.check()
    started, began = time.time(), time.perf_counter()
    env.observer.emit(StageStarted(spec.task_id, info.name, started))
    try:
        spec = spec if info.settle is None else info.settle(env, spec, inputs)
        result = _run(info, env, spec, inputs)
        result = replace(result, started=started, seconds=time.perf_counter() - began)
        # Reported before the check: the result is stored and can be read even if the check refuses it.
        env.observer.emit(StageFinished(result))
        if info.check:
            info.check(env, spec, result)
    except BaseException as raised:
        # An error of a cancelled stage while it stops is not an error of the stage.
        error = RunCancelled("the run was cancelled") if env.cancelled.is_set() else raised
        interrupted = not isinstance(error, Exception)
        env.observer.emit(StageFailed(spec.task_id, info.name, str(error), type(error).__name__, interrupted))
        if error is raised:
            raise
        raise error from raised
    return result


def _run(info: StageInfo, env: StageContext, spec: StageSpec, inputs: Mapping[str, str]) -> StageResult:
    document = action_document(info.name, spec, inputs, env.store)
    key = digest(document)
    refreshing = (spec.task_id, info.name) in env.refresh
    while True:
        # Renewed, because this run builds on it: a garbage collection spares it.
        action = None if refreshing else env.store.actions.find(info.name, key, renew=True, hashes=env.verify)
        if _is_hit(action, env, info.name) or (action is not None and _is_answered(env, info.name, action)):
            return _hit(env, info.name, spec.task_id, action)
        if env.judge_only and info.name in _BEFORE_JUDGES:
            raise InputError(
                f"{info.name} of task '{spec.task_id}' has no stored answers to judge for this config, or its data, "
                f"model or prompt has changed. Ask for them first: {env.resume_command}"
            )
        with _locked(env, info.name, spec.task_id, key):
            replaced = env.store.actions.find(
                info.name, key, renew=not refreshing, hashes=env.verify and not refreshing
            )
            if _is_hit(replaced, env, info.name) and not refreshing:
                return _hit(env, info.name, spec.task_id, replaced)
            previous = replaced if replaced is not None and has_outputs_of(info.name, replaced) else None
            run = StageRun(env, info.name, spec.task_id, key, inputs, refreshing=refreshing, previous=previous)
            try:
                return _compute(info, spec, run, document, replaced)
            except SupersededByOtherRun:
                # Without a lock, another process may have been faster: its result is a hit now, or its answers are
                # reused.
                continue


@contextmanager
def _locked(env: StageContext, stage_name: str, task_id: str, key: str) -> Iterator[None]:
    """Hold the lock of a key. A long wait is reported, because the stage shows no progress then.

    Raises:
        RunCancelled: the run was cancelled while it waited.
    """
    message = f"{stage_name} of task '{task_id}' waits for another run that computes the same, and takes its result."
    # An observer may need the task run of this context.
    waiting = Timer(_PATIENCE_S, copy_context().run, (env.observer.emit, RunWarning(message, task_id)))
    waiting.daemon = True
    waiting.start()
    try:
        with env.store.lock(key, env.check):
            waiting.cancel()
            yield
    finally:
        waiting.cancel()


def _compute(
    info: StageInfo, spec: StageSpec, run: StageRun, document: JsonValue, replaced: Action | None
) -> StageResult:
    try:
        info.body(run, spec)
    except BaseException:
        run.abort()
        raise
    finally:
        # Arrow keeps some 30 MB of freed tables otherwise.
        pa.default_memory_pool().release_unused()
    complete = all(artifact.complete for artifact in run.outputs.values())
    action = run.env.store.actions.commit(
        info.name,
        run.key,
        run.outputs,
        complete=complete,
        document=document,
        replaces=replaced,
    )
    run.finish()
    return StageResult(
        info.name,
        run.task_id,
        run.key,
        dict(action.outputs),
        cached=False,
        complete=action.complete,
        counts={**_counts(action.artifacts), **run.counts},
    )


def _is_hit(action: Action | None, env: StageContext, stage_name: Stage) -> TypeGuard[Action]:
    if action is None or not action.complete or not has_outputs_of(stage_name, action):
        return False
    return action.outputs.get("judgments") not in env.without_verdict


def _is_answered(env: StageContext, stage_name: Stage, action: Action) -> bool:
    """Whether a run that only judges takes a result as it is: requests that failed stay failed."""
    return env.judge_only and stage_name in _BEFORE_JUDGES and has_outputs_of(stage_name, action)


def _hit(env: StageContext, stage: Stage, task_id: str, action: Action) -> StageResult:
    env.store.wip(action.key).clear_leftovers()
    counts = _counts(action.artifacts)
    return StageResult(stage, task_id, action.key, dict(action.outputs), cached=True, counts=counts)


def _counts(artifacts: Mapping[str, Artifact]) -> dict[str, int]:
    """Rows of each output and the counts its manifest holds."""
    counts: dict[str, int] = {}
    for name, artifact in artifacts.items():
        counts[name] = artifact.rows
        counts.update(artifact.counts)
    return counts


def _ids(inputs: Mapping[str, StageResult | None]) -> dict[str, str]:
    """Artifact ids of the inputs by name, without inputs that are None."""
    return {name: input_id(name, result.outputs) for name, result in inputs.items() if result is not None}
