"""What the probe knows of the models that a run asks."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import GageError, InputError
from gage_eval.config.settings import load_settings
from gage_eval.engine.endpoint_check import PropertyVerdict, check_endpoint
from gage_eval.engine.endpoint_record import EndpointRecord, record_endpoint
from gage_eval.engine.probe import Verdict, probe, probe_identity, probed
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
        endpoint: what else it does, where that was asked.
    """

    name: str
    tasks: tuple[str, ...]
    verdict: Verdict
    endpoint: EndpointRecord | None = None

    @property
    def text(self) -> str:
        """The verdict in a sentence."""
        return f"{self.name} is {self.verdict.text}"

    @property
    def record(self) -> ProbeRecord:
        """The same for run.json."""
        verdict = self.verdict
        return ProbeRecord(
            model=self.name,
            tasks=list(self.tasks),
            identity=digest(verdict.identity),
            verdict=verdict.verdict,
            text=self.text,
            probed=verdict.created,
        )


def probes(plan: Plan, store: Store, concurrency: int | None = None) -> list[ModelProbe]:
    """The models under test of a plan that were probed.

    Raises:
        InputError: a model is not there, or a stored verdict is damaged.
    """
    stored = probed(store)
    # What identifies a model may take a while to find out.
    if not stored.any():
        return []
    return [
        ModelProbe(spec.model_name, tasks, verdict)
        for spec, tasks, identity in _models(plan, concurrency or load_settings().concurrency)
        if (verdict := stored.find(identity)) is not None
    ]


def probe_records(plan: Plan, store: Store, concurrency: int | None = None) -> list[ProbeRecord]:
    """The same for run.json. What cannot be found out is not known: the run itself says what is wrong."""
    with suppress(GageError):
        return [model.record for model in probes(plan, store, concurrency)]
    return []


def unproven(plan: Plan, known: Iterable[ProbeRecord]) -> list[str]:
    """A sentence for each model under test that is asked to be deterministic and that no probe has found exact.

    Args:
        plan: the run's plan.
        known: what the probe knows of its models.
    """
    verdicts = {task_id: probe for probe in known for task_id in probe.tasks}
    sentences = {}
    for task in plan.tasks:
        probe, name = verdicts.get(task.task_id), task.infer.model_name
        if not task.infer.is_deterministic or (probe is not None and probe.verdict == "exact"):
            continue
        why = "no probe has measured it: gage probe" if probe is None else f"the probe does not agree: {probe.text}"
        sentences[name] = f"{name} is asked to be deterministic, and its answers are not called exact, because {why}"
    return list(sentences.values())


def probe_models(
    run: PlannedRun, concurrency: int | None = None, *, prompts: int | None = None, context: int | None = None
) -> list[ModelProbe]:
    """Probe every model under test of a plan, and store the verdicts.

    Args:
        run: the plan.
        concurrency: overrides the backends' own.
        prompts, context: as for `record_endpoint`; without ``prompts`` nothing but the probe is asked.

    Raises:
        EndpointFailed: a model does not start, or gives no answer.
        InputError: no model under test can be probed, or there are several where the endpoint of one is to be recorded.
    """
    concurrency = concurrency or load_settings().concurrency
    models = list(_models(run.plan, concurrency))
    if not models:
        raise InputError(f"{run.plan.name} has no task, so there is no model to probe.")
    if prompts is not None and len(models) > 1:
        names = ", ".join(spec.model_name for spec, _, _ in models)
        raise InputError(f"{run.plan.name} asks several models ({names}), and a reference is of one: choose --task ID.")
    results = []
    with Runtime(concurrency) as runtime:
        for spec, tasks, identity in models:
            backend = runtime.backend(spec.backend_type, spec.backend_config, spec.context)
            verdict = runtime.call(probe(backend, identity))
            probed(run.store).replace(verdict)
            endpoint = None
            if prompts is not None:
                endpoint = runtime.call(
                    record_endpoint(backend, spec.model_name, verdict, prompts=prompts, context=context)
                )
            results.append(ModelProbe(spec.model_name, tasks, verdict, endpoint))
    return results


def check_models_endpoint(run: PlannedRun, reference: EndpointRecord) -> list[PropertyVerdict]:
    """Check the endpoint of the only model under test of a plan against a reference.

    Raises:
        EndpointFailed, InputError: as for `probe_models`.
    """
    context = None if reference.context is None else reference.context.size
    (probed,) = probe_models(run, run.options.concurrency, prompts=len(reference.answers), context=context)
    assert probed.endpoint is not None
    return check_endpoint(probed.endpoint, reference)


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
