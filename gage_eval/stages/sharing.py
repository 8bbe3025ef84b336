"""Model sessions: a generate stage's work sent to other processes, and served there."""

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
from gage_eval.engine.job import Job, WorkGone, chunk_rows
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.session import EngineSpec, MissingChunk, ModelSession, SessionStep
from gage_eval.errors import InputError
from gage_eval.foreign import beside, seen_from
from gage_eval.marks import Stage
from gage_eval.planning.generate_spec import GenerateSpec, PromptBinding
from gage_eval.planning.keys import VERSIONS
from gage_eval.planning.render import RoleSource
from gage_eval.stages.generation import price_of
from gage_eval.store import Store


def session_of(store: Store, engine: GenerateSpec, steps: Iterable[SessionStep], workers: int) -> ModelSession:
    """The session that has one engine answer some steps."""
    folder = engine.context.base_dir
    spec = EngineSpec(seen_from(engine.backend_type, folder), dict(engine.backend_config), str(folder.absolute()))
    return ModelSession(store.url, spec, workers, tuple(steps))


def step_of(
    store: Store,
    spec: GenerateSpec,
    *,
    stage: Stage,
    key: str,
    work_key: str,
    inputs: Mapping[str, str],
    workers: int,
) -> SessionStep:
    """A generate stage as a step of a session.

    Args:
        store: where its inputs and finished chunks are.
        spec: who is asked what.
        stage: its name.
        key: key of its action.
        work_key: key of its work in progress.
        inputs: artifact ids by input.
        workers: processes that will share it.
    """
    source = RoleSource.of(spec, store, inputs)
    rows = sum(count for _, count in source.parts)
    wip = store.wip(work_key)
    missing = []
    for part, count in source.parts:
        done = {(chunk.start, chunk.stop) for chunk in wip.chunks(part)}
        size = chunk_rows(count, rows, workers)
        for start in range(0, count, size):
            chunk = MissingChunk(part, start, min(start + size, count))
            if (chunk.start, chunk.stop) not in done:
                missing.append(chunk)
    return SessionStep(
        spec.task_id, stage, key, _asks(stage, spec), work_key, _requests(spec), dict(inputs), tuple(missing)
    )


def serve(session: ModelSession, runtime: Runtime, *, context: BackendContext | None = None) -> int:
    """Answer what a session misses, beside whoever else does; returns the requests sent.

    The engine is opened once for all steps. A chunk whose rows end in errors is left to whoever holds the stage.

    Args:
        session: what to answer.
        runtime: runs the engine.
        context: media, environment and secrets of this place; its folder is the session's.

    Raises:
        EndpointFailed: the engine cannot go on; what was answered is kept.
        InputError: this machine would ask something else.
    """
    store = Store.open(session.store)
    around = context or BackendContext(media=store.media.get, env=os.environ, media_file=store.media.path)
    here = replace(around, base_dir=Path(session.engine.base_dir))
    sent = 0
    for step in session.steps:
        spec = _spec(session, step, here)
        sent += _serve_step(store, session, step, spec, runtime)
    return sent


def _serve_step(store: Store, session: ModelSession, step: SessionStep, spec: GenerateSpec, runtime: Runtime) -> int:
    def is_over() -> bool:
        action = store.find_action(step.stage, step.key)
        return action is not None and action.complete

    if is_over():
        return 0
    if _asks(step.stage, spec) != step.asks:
        # Its chunks are taken as they are.
        raise InputError(
            f"step {step.stage} of task '{step.task_id}' would ask something else on this machine: use the same "
            "gage-eval, plug-ins, libraries and model files as where the session was made."
        )
    backend = runtime.backend(spec.backend_type, spec.backend_config, spec.context)
    engine = Generate(
        Job(
            source=RoleSource.of(spec, store, step.inputs),
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
    # The others were faster: everything is answered.
    with suppress(WorkGone):
        runtime.call(engine.run())
    return engine.tally.sent


def _asks(stage: Stage, spec: GenerateSpec) -> str:
    """Digest of who is asked what, as this machine's software, plug-ins and model files have it."""
    return digest([stage, VERSIONS[stage], spec.material()])


def _requests(spec: GenerateSpec) -> dict[str, Any]:
    """What renders the requests of a spec, as plain values."""
    hooks = spec.hooks
    return {
        "role": spec.role,
        "adapter_id": spec.adapter_id,
        "params": dict(spec.params),
        "tool_rounds": spec.tool_rounds,
        "class_path": seen_from(hooks.path, spec.context.base_dir) if hooks else None,
        "prompt": _plain(spec.prompt) if spec.prompt else None,
        "prompts": {name: _plain(prompt) for name, prompt in spec.prompts.items()},
        "judges": list(spec.judges),
        "on_demand": spec.on_demand,
    }


def _plain(prompt: PromptBinding) -> dict[str, Any]:
    return {**asdict(prompt), "params": dict(prompt.params)}


def _spec(session: ModelSession, step: SessionStep, context: BackendContext) -> GenerateSpec:
    given = dict(step.requests)
    try:
        prompt, class_path, prompts = given.pop("prompt"), given.pop("class_path"), given.pop("prompts")
        judges = tuple(given.pop("judges"))
        return GenerateSpec(
            task_id=step.task_id,
            backend_type=beside(session.engine.type, context.base_dir),
            backend_config=session.engine.config,
            context=context,
            prompt=PromptBinding(**prompt) if prompt else None,
            prompts={name: PromptBinding(**other) for name, other in prompts.items()},
            judges=judges,
            hooks=RoleHooks(beside(class_path, context.base_dir)) if class_path else None,
            **given,
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"step {step.stage} of task '{step.task_id}' is none of a session's: {error}.") from error
