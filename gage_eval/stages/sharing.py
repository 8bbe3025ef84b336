"""Model sessions: send a generate stage's work to other processes, and serve it there."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gage_eval.backends.base import BackendContext
from gage_eval.backends.role_hooks import RoleHooks
from gage_eval.canonical import digest
from gage_eval.engine.generate import Generate
from gage_eval.engine.job import Job, WorkGone, chunks_of
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.session import EngineSpec, MissingChunk, ModelSession, SessionStep
from gage_eval.errors import InputError
from gage_eval.foreign import beside, seen_from
from gage_eval.marks import Stage
from gage_eval.planning.asks import Asks
from gage_eval.planning.generate_spec import Binding, GenerateSpec, PromptBinding
from gage_eval.planning.keys import VERSIONS
from gage_eval.planning.source import RoleSource
from gage_eval.stages.generation import price_of
from gage_eval.store import Artifact, Store

# The input with explicit asks.
_ASKS = "asks"


def session_of(store: Store, engine: GenerateSpec, steps: Iterable[SessionStep], workers: int) -> ModelSession:
    """The session of an engine and the steps it serves."""
    folder = engine.context.base_dir
    spec = EngineSpec(seen_from(engine.backend_type, folder), dict(engine.backend_config), str(folder.absolute()))
    return ModelSession(store.url, spec, workers, tuple(steps))


def step_of(
    store: Store,
    asks: Asks,
    *,
    stage: Stage,
    key: str,
    work_key: str,
    inputs: Mapping[str, str],
    workers: int,
) -> SessionStep:
    """A generate stage as a step of a session.

    Args:
        store: where the inputs and finished chunks are.
        asks: the asks of one model; explicit asks are read from an artifact.
        stage: name of the stage.
        key: key of the stage's action.
        work_key: key of the work in progress.
        inputs: artifact ids by input.
        workers: number of processes that will share the step.
    """
    wip = store.wip(work_key)
    missing = []
    for part, chunks in chunks_of(RoleSource.of(asks, store, inputs).parts, workers).items():
        done = {(chunk.start, chunk.stop) for chunk in wip.chunks(part)}
        missing += [
            MissingChunk(part, chunk.start, chunk.stop) for chunk in chunks if (chunk.start, chunk.stop) not in done
        ]
    read = dict(inputs)
    if asks.table is not None:
        assert isinstance(asks.table, Artifact), "other processes read explicit asks from the store"
        read[_ASKS] = asks.table.id
    return SessionStep(
        asks.spec.task_id, stage, key, _digest(stage, asks), work_key, _requests(asks), read, tuple(missing)
    )


def serve(session: ModelSession, runtime: Runtime, *, context: BackendContext | None = None) -> int:
    """Answer the missing chunks of a session, possibly together with other processes. Returns the number of sent
    requests.

    The engine is opened once for all steps. A chunk with error rows is left to the process that runs the stage.

    Args:
        session: the session to serve.
        runtime: runs the engine.
        context: media, environment and secrets of this machine; its folder is the session's.

    Raises:
        EndpointFailed: the engine cannot answer any more; the answers so far are kept.
        InputError: the bindings differ on this machine.
    """
    store = Store.open(session.store)
    around = context or BackendContext(media=store.media.get, env=os.environ, media_file=store.media.path)
    here = replace(around, base_dir=Path(session.engine.base_dir))
    sent = 0
    for step in session.steps:
        asks = _asks(session, step, here, store)
        sent += _serve_step(store, session, step, asks, runtime)
    return sent


def _serve_step(store: Store, session: ModelSession, step: SessionStep, asks: Asks, runtime: Runtime) -> int:
    spec = asks.spec

    def is_over() -> bool:
        action = store.find_action(step.stage, step.key)
        return action is not None and action.complete

    if is_over():
        return 0
    if _digest(step.stage, asks) != step.asks:
        # Finished chunks of this action are accepted from other machines.
        raise InputError(
            f"step {step.stage} of task '{step.task_id}' has other bindings on this machine: use the same "
            "gage-eval, plug-ins, libraries and model files as on the machine that made the session."
        )
    backend = runtime.backend(spec.backend_type, spec.backend_config, spec.context)
    engine = Generate(
        Job(
            source=RoleSource.of(asks, store, {name: id_ for name, id_ in step.inputs.items() if name != _ASKS}),
            backend=backend,
            model_identity=spec.model_identity,
            store=store,
            wip=store.wip(step.work_key),
            log_folder=store.scratch(step.work_key),
            responses=None,
            telemetry=None,
            workers=session.workers,
            claims=store.claims(step.work_key),
            is_over=is_over,
            budget=runtime.budget,
            price=price_of(spec),
        )
    )
    # Other workers were faster: all chunks are answered.
    with suppress(WorkGone):
        runtime.call(engine.run())
    return engine.tally.sent


def _digest(stage: Stage, asks: Asks) -> str:
    """Digest of the bindings with this machine's software, plug-ins and model files."""
    return digest([stage, VERSIONS[stage], sorted(asks.bindings)])


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
            for binding in asks.bindings.values()
        ],
    }


def _plain(prompt: PromptBinding | None) -> dict[str, Any] | None:
    return None if prompt is None else {**asdict(prompt), "params": dict(prompt.params)}


def _prompt(given: Mapping[str, Any] | None) -> PromptBinding | None:
    return PromptBinding(**given) if given else None


def _asks(session: ModelSession, step: SessionStep, context: BackendContext, store: Store) -> Asks:
    given = dict(step.requests)
    try:
        class_path, bound = given.pop("class_path"), given.pop("bindings")
        spec = GenerateSpec(
            task_id=step.task_id,
            backend_type=beside(session.engine.type, context.base_dir),
            backend_config=session.engine.config,
            context=context,
            hooks=RoleHooks(beside(class_path, context.base_dir)) if class_path else None,
            **given,
        )
        bindings = [Binding(spec, _prompt(one["prompt"]), one["params"], one["parser"]) for one in bound]
        if _ASKS not in step.inputs:
            return Asks.implicit(bindings[0])
        table = store.artifact(step.inputs[_ASKS])
        return Asks(spec, {binding.digest: binding for binding in bindings}, spec.output, table)
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"step {step.stage} of task '{step.task_id}' cannot be read ({error}); make the session again."
        ) from error
