"""Steps of model sessions: what a generate stage asks, as plain values, and serving it in another process."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from gage_eval.base.canonical import digest, sha256_hex
from gage_eval.base.errors import InputError
from gage_eval.base.marks import Stage
from gage_eval.config.settings import load_settings
from gage_eval.engine.generate import Generate, first_failure
from gage_eval.engine.job import Job, Tally, WorkGone, missing_chunks
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.session import EngineSpec, ModelSession, SessionStep
from gage_eval.extend.loading import beside, code_files, seen_from
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.role_hooks import RoleHooks
from gage_eval.pipeline.asks import Asks, StoredAsks
from gage_eval.pipeline.generate_spec import Binding, GenerateSpec, PromptBinding
from gage_eval.pipeline.generation import price_of
from gage_eval.pipeline.keys import VERSIONS
from gage_eval.pipeline.source import RoleSource
from gage_eval.store import Artifact, Store

# The input with explicit asks.
_ASKS = "asks"
# Steps that a shard works on at once: enough to overlap the end of one with the start of the next.
_STEPS_AT_ONCE = 4
# How often a shard without work looks for chunks whose shard is gone.
_LOOK_EVERY_S = 1.0


def step_of(
    asks: Asks,
    *,
    stage: Stage,
    key: str,
    work_key: str,
    inputs: Mapping[str, str],
    earlier: tuple[Artifact, Artifact] | None = None,
    reuse: bool = True,
) -> SessionStep:
    """A generate stage as a step of a session.

    Args:
        asks: the asks of one model; explicit asks are read from an artifact.
        stage: name of the stage.
        key: key of the stage's action.
        work_key: key of the work in progress.
        inputs: artifact ids by input.
        earlier: responses and telemetry of the action's incomplete result.
        reuse: take answers from other runs.
    """
    read = dict(inputs)
    if asks.table is not None:
        assert isinstance(asks.table, StoredAsks), "other processes read explicit asks from the store"
        read[_ASKS] = asks.table.artifact.id
    return SessionStep(
        task_id=asks.spec.task_id,
        stage=stage,
        key=key,
        asks=_digest(stage, asks),
        work_key=work_key,
        requests=_requests(asks),
        inputs=read,
        earlier=None if earlier is None else (earlier[0].id, earlier[1].id),
        reuse=reuse,
    )


def engine_of(spec: GenerateSpec, files: Mapping[str, bytes] | None = None) -> EngineSpec:
    """The engine of a spec, for another machine.

    Args:
        spec: asks the engine.
        files: the files that travel with it, by path (`files_of`).
    """
    gpus = 0 if spec.placement is None else spec.placement.gpus
    digests = {name: sha256_hex(data) for name, data in (files or {}).items()}
    return EngineSpec(seen_from(spec.backend_type, spec.context.base_dir), dict(spec.backend_config), gpus, digests)


def serve(
    session: ModelSession,
    store: Store,
    runtime: Runtime,
    context: BackendContext,
    *,
    progress: Callable[[list[Tally]], None] = lambda tallies: None,
) -> int:
    """Answer the chunks of a session, together with other shards. Returns the number of sent requests.

    The engine is opened once for all steps. Returns when every chunk is answered, by this shard or by another: the
    chunks of a lost shard are taken over.

    Args:
        session: the session to serve.
        store: the store that holds it.
        runtime: runs the engine.
        context: folder, media, environment and secrets of this machine.
        progress: called once with the tallies of the steps, which change while the session is served.

    Raises:
        EndpointFailed: the engine cannot answer any more; the answers so far are kept.
        InputError: the bindings differ on this machine.
    """
    steps = [ServedStep(session, step, store, context) for step in session.steps]
    steps = [step for step in steps if not step.is_finished()]
    for step in steps:
        step.check()
    progress([step.tally for step in steps])
    if steps:
        # Model files may have changed since an earlier session: both engines would not fit.
        keys = {step.engine_key for step in steps}
        runtime.call(context.engines.keep([key for key in keys if key is not None]))
        for step in steps:
            step.open(runtime)
        runtime.call(_serve_all(steps))
    return sum(step.tally.sent for step in steps)


async def _serve_all(steps: "Sequence[ServedStep]") -> None:
    places = asyncio.Semaphore(_STEPS_AT_ONCE)

    async def first(step: ServedStep) -> None:
        async with places:
            await step.answer()

    await _together([first(step) for step in steps])
    while steps := [step for step in steps if not await asyncio.to_thread(step.is_finished)]:
        await asyncio.sleep(_LOOK_EVERY_S)
        abandoned = [step for step in steps if await asyncio.to_thread(step.take_abandoned)]
        await _together([step.answer() for step in abandoned])


async def _together(work: Sequence[Any]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as failures:
        raise first_failure(failures) from None


class ServedStep:
    """A step of a session in a shard.

    Attributes:
        tally: what this shard did for it.
    """

    def __init__(self, session: ModelSession, step: SessionStep, store: Store, context: BackendContext) -> None:
        self.tally = Tally(total=0)
        self._session = session
        self._step = step
        self._store = store
        self._context = context
        self._wip = store.wip(step.work_key)
        self._over = False
        self._job: Job | None = None
        self._runtime: Runtime | None = None

    def check(self) -> None:
        """Check that this machine would ask the same.

        Raises:
            InputError: it would not. Finished chunks of an action are accepted from other machines.
        """
        if _digest(self._step.stage, self._asks) != self._step.asks:
            raise InputError(
                f"step {self._step.stage} of task '{self._step.task_id}' has other bindings on this machine: use the "
                "same gage-eval, plug-ins, libraries and model files as on the machine that made the session."
            )

    @property
    def engine_key(self) -> str | None:
        """The key of its engine."""
        return self._asks.spec.engine_key

    def open(self, runtime: Runtime) -> None:
        """Open the engine, if no other step has done so."""
        spec, step, store = self._asks.spec, self._step, self._store
        backend = runtime.backend(spec.backend_type, spec.backend_config, spec.context)
        earlier = step.earlier
        self._runtime = runtime
        self._job = Job(
            source=self._source,
            backend=backend,
            model_identity=spec.model_identity,
            store=store,
            wip=self._wip,
            log_folder=store.scratch(step.work_key),
            responses=None,
            telemetry=None,
            workers=self._session.workers,
            claims=store.claims(step.work_key),
            attempt=self._session.attempt,
            is_over=self._is_committed,
            reuse=step.reuse,
            earlier=None if earlier is None else (store.artifact(earlier[0]), store.artifact(earlier[1])),
            budget=runtime.budget,
            price=price_of(spec),
        )

    async def answer(self) -> None:
        """Answer the chunks that no other shard works on."""
        assert self._runtime is not None
        assert self._job is not None
        with self._runtime.answers.step() as self._job.answers:
            engine = Generate(self._job, self.tally)
            # Another run has committed the action.
            with suppress(WorkGone):
                await engine.run()

    def is_finished(self) -> bool:
        """Whether every chunk is answered, or the action committed."""
        self._over = self._over or self._is_committed() or not self._missing()
        return self._over

    def take_abandoned(self) -> bool:
        """Claim an unanswered chunk of a shard that is gone. Returns whether there is one."""
        assert self._job is not None
        assert self._job.claims is not None
        return any(self._job.claims.take(name) for name in self._missing())

    def _missing(self) -> list[str]:
        """Names of the chunks that are not answered."""
        session = self._session
        missing = missing_chunks(self._source.parts, session.workers, self._wip, session.attempt)
        return [chunk.name for chunk in missing]

    def _is_committed(self) -> bool:
        action = self._store.find_action(self._step.stage, self._step.key)
        return self._step.reuse and action is not None and action.complete

    @cached_property
    def _asks(self) -> Asks:
        return _asks(self._session.engine, self._step, self._context, self._store)

    @cached_property
    def _source(self) -> RoleSource:
        inputs = {name: id_ for name, id_ in self._step.inputs.items() if name != _ASKS}
        return RoleSource.of(self._asks, self._store, inputs)


def _bindings(asks: Asks) -> Mapping[str, Binding]:
    """The bindings of some asks by digest."""
    if asks.table is None:
        assert asks.binding is not None
        return {asks.binding.digest: asks.binding}
    made = [asks.table.bindings(part) for part in asks.table.parts]
    return {name: one for part in made for name, one in part.items() if one.spec.adapter_id == asks.spec.adapter_id}


@dataclass(frozen=True)
class _Given:
    """Explicit asks with bindings that travelled with the step."""

    artifact: Artifact
    given: Mapping[str, Binding]

    @property
    def parts(self) -> Sequence[int]:
        return [part.index for part in self.artifact.parts]

    def read(self, part: int) -> pa.Table:
        return self.artifact.read(part)

    def bindings(self, part: int) -> Mapping[str, Binding]:
        return self.given


def _digest(stage: Stage, asks: Asks) -> str:
    """Digest of the bindings with this machine's software, plug-ins and model files."""
    return digest([stage, VERSIONS[stage], sorted(_bindings(asks))])


def _requests(asks: Asks) -> dict[str, Any]:
    """What is needed to render the requests of some asks, as plain values."""
    spec = asks.spec
    hooks = spec.hooks
    return {
        "role": spec.role,
        "adapter_id": spec.adapter_id,
        "tool_rounds": spec.tool_rounds,
        "class_path": seen_from(hooks.path, spec.context.base_dir) if hooks else None,
        "bindings": [
            {"prompt": _plain(binding.prompt), "params": dict(binding.params), "parser": binding.parser}
            for binding in _bindings(asks).values()
        ],
    }


def _plain(prompt: PromptBinding | None) -> dict[str, Any] | None:
    return None if prompt is None else {**asdict(prompt), "params": dict(prompt.params)}


def _prompt(given: Mapping[str, Any] | None) -> PromptBinding | None:
    return PromptBinding(**given) if given else None


def _asks(engine: EngineSpec, step: SessionStep, context: BackendContext, store: Store) -> Asks:
    given = dict(step.requests)
    try:
        class_path, bound = given.pop("class_path"), given.pop("bindings")
        spec = GenerateSpec(
            task_id=step.task_id,
            backend_type=beside(engine.type, context.base_dir),
            backend_config=engine.config,
            context=context,
            hooks=RoleHooks(beside(class_path, context.base_dir)) if class_path else None,
            **given,
        )
        bindings = [Binding(spec, _prompt(one["prompt"]), one["params"], one["parser"]) for one in bound]
        if _ASKS not in step.inputs:
            return Asks.implicit(bindings[0])
        table = store.artifact(step.inputs[_ASKS])
        given_bindings = {binding.digest: binding for binding in bindings}
        return Asks(spec, spec.output, table=_Given(table, given_bindings))
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"step {step.stage} of task '{step.task_id}' cannot be read ({error}); make the session again."
        ) from error


def files_of(spec: GenerateSpec) -> dict[str, bytes]:
    """The files of the config's folder that the engine or the role's class needs, by path below it.

    Raises:
        InputError: a model is named by a relative path, which another machine does not have.
    """
    folder = spec.context.base_dir.resolve()
    most = load_settings().travel_mib * 2**20
    found: dict[str, bytes] = {}
    for name in (spec.backend_type, *([spec.hooks.path] if spec.hooks else [])):
        file = (folder / name.rpartition(":")[0]).resolve()
        if file.suffix == ".py" and file.is_relative_to(folder):
            code = [one for one in code_files(file) if one.is_relative_to(folder)]
            found |= {one.relative_to(folder).as_posix(): one.read_bytes() for one in code}
    for setting, value in spec.backend_config.items():
        if not isinstance(value, str) or not value or Path(value).is_absolute() or "://" in value:
            continue
        place = Path(os.path.normpath(folder / value))
        inside = place.is_relative_to(folder) and place.resolve().is_relative_to(folder)
        if inside and place.is_file() and place.stat().st_size <= most:
            found[place.relative_to(folder).as_posix()] = place.read_bytes()
        elif setting.endswith("path") and place.exists():
            raise InputError(
                f"backend of adapter '{spec.adapter_id}': {setting} '{value}' is a path on this machine, which the "
                "machines of a work pool cannot read. Give an absolute path that they have, or a name on the hub."
            )
    return found
