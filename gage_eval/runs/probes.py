"""What the probe knows of the models that a run asks."""

from dataclasses import dataclass

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import GageError, InputError
from gage_eval.config.settings import load_settings
from gage_eval.engine.probe import Verdict, keep, probe, probe_identity, stored
from gage_eval.engine.runtime import Runtime
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.specs import Plan
from gage_eval.runs.planned import PlannedRun, planned_before
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store


@dataclass(frozen=True)
class ModelProbe:
    """A model under test of a run.

    Attributes:
        name: the model's.
        tasks: those that ask it.
        spec: how the first of them does.
        concurrency: the run's limit; None for the backend's own.
        identity: see `probe_identity`.
        verdict: None where exactly this was not probed.
    """

    name: str
    tasks: tuple[str, ...]
    spec: GenerateSpec
    concurrency: int | None
    identity: dict[str, JsonValue]
    verdict: Verdict | None

    @property
    def text(self) -> str:
        """The verdict in a sentence, or that there is none."""
        if self.verdict is not None:
            return f"{self.name} is {self.verdict.text}"
        return f"{self.name} was not probed with these settings, so nothing says that it repeats its answers"


def probes(plan: Plan, store: Store, concurrency: int | None = None) -> list[ModelProbe]:
    """The models under test of a plan, with their verdicts.

    Raises:
        InputError: a model is not there, or a stored verdict is damaged.
    """
    concurrency = concurrency or load_settings().concurrency
    tasks: dict[str, list[str]] = {}
    specs: dict[str, tuple[GenerateSpec, dict[str, JsonValue]]] = {}
    for task in plan.tasks:
        spec = task.infer
        identity = probe_identity(spec.backend_type, spec.backend_config, spec.context, concurrency=concurrency)
        key = digest(identity)
        specs.setdefault(key, (spec, identity))
        tasks.setdefault(key, []).append(task.task_id)
    return [
        ModelProbe(
            spec.model_name,
            tuple(tasks[key]),
            spec,
            concurrency,
            identity,
            stored(store, identity),
        )
        for key, (spec, identity) in specs.items()
    ]


def probes_of_run(run: RunReader) -> list[ModelProbe]:
    """The models under test of a stored run, as they are now; none where its config can no longer be used."""
    try:
        return probes(planned_before(run.stored).plan, run.store, run.stored.record.options.get("concurrency"))
    except GageError:
        return []


def probe_models(run: PlannedRun, concurrency: int | None = None) -> list[ModelProbe]:
    """Probe every model under test of a plan, and store the verdicts.

    Raises:
        EndpointFailed: a model does not start, or gives no answer.
        InputError: no model under test can be probed.
    """
    models = probes(run.plan, run.store, concurrency)
    if not models:
        raise InputError(f"{run.plan.name} has no task, so there is no model to probe.")
    results = []
    with Runtime(models[0].concurrency) as runtime:
        for each in models:
            backend = runtime.backend(each.spec.backend_type, each.spec.backend_config, each.spec.context)
            verdict = runtime.call(probe(backend, each.identity))
            keep(run.store, verdict)
            results.append(ModelProbe(each.name, each.tasks, each.spec, each.concurrency, each.identity, verdict))
    return results
