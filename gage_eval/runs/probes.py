"""What the probe knows of the models that a run asks."""

from collections.abc import Iterator
from dataclasses import dataclass

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import GageError, InputError
from gage_eval.config.settings import load_settings
from gage_eval.engine.probe import Verdict, any_stored, keep, probe, probe_identity, stored
from gage_eval.engine.runtime import Runtime
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.specs import Plan
from gage_eval.runs.planned import PlannedRun
from gage_eval.runs.record import ProbeRecord
from gage_eval.store import Store


@dataclass(frozen=True)
class ModelProbe:
    """A model under test of a run, with the verdict on exactly its engine and settings.

    Attributes:
        name: the model's.
        tasks: those that ask it.
        verdict: of the probe.
    """

    name: str
    tasks: tuple[str, ...]
    verdict: Verdict

    @property
    def text(self) -> str:
        """The verdict in a sentence."""
        return f"{self.name} is {self.verdict.text}"


def probes(plan: Plan, store: Store, concurrency: int | None = None) -> list[ModelProbe]:
    """The models under test of a plan that were probed.

    Raises:
        InputError: a model is not there, or a stored verdict is damaged.
    """
    if not any_stored(store):
        return []
    return [
        ModelProbe(spec.model_name, tasks, verdict)
        for spec, tasks, identity in _models(plan, concurrency or load_settings().concurrency)
        if (verdict := stored(store, identity)) is not None
    ]


def probe_records(plan: Plan, store: Store, concurrency: int | None = None) -> list[ProbeRecord]:
    """The same for run.json. What cannot be found out is not known: the run itself says what is wrong."""
    try:
        known = probes(plan, store, concurrency)
    except GageError:
        return []
    return [
        ProbeRecord(
            model=probed.name,
            tasks=list(probed.tasks),
            identity=digest(probed.verdict.identity),
            verdict=probed.verdict.verdict,
            text=probed.text,
            probed=probed.verdict.created,
        )
        for probed in known
    ]


def probe_models(run: PlannedRun, concurrency: int | None = None) -> list[ModelProbe]:
    """Probe every model under test of a plan, and store the verdicts.

    Raises:
        EndpointFailed: a model does not start, or gives no answer.
        InputError: no model under test can be probed.
    """
    concurrency = concurrency or load_settings().concurrency
    models = list(_models(run.plan, concurrency))
    if not models:
        raise InputError(f"{run.plan.name} has no task, so there is no model to probe.")
    results = []
    with Runtime(concurrency) as runtime:
        for spec, tasks, identity in models:
            backend = runtime.backend(spec.backend_type, spec.backend_config, spec.context)
            verdict = runtime.call(probe(backend, identity))
            keep(run.store, verdict)
            results.append(ModelProbe(spec.model_name, tasks, verdict))
    return results


def _models(
    plan: Plan, concurrency: int | None
) -> Iterator[tuple[GenerateSpec, tuple[str, ...], dict[str, JsonValue]]]:
    """Each model under test: how its first task asks it, the tasks, and what a verdict holds for."""
    tasks: dict[str, list[str]] = {}
    specs: dict[str, tuple[GenerateSpec, dict[str, JsonValue]]] = {}
    for task in plan.tasks:
        spec = task.infer
        identity = probe_identity(spec.backend_type, spec.backend_config, spec.context, concurrency=concurrency)
        key = digest(identity)
        specs.setdefault(key, (spec, identity))
        tasks.setdefault(key, []).append(task.task_id)
    for key, (spec, identity) in specs.items():
        yield spec, tuple(tasks[key]), identity
