"""Settle the form of verdicts of judges with ``verdict: auto``: from the store, or by asking them.

What is stored holds for the model and the sampling parameters of the judge, whatever its freshness. A run asks where
nothing is stored, before its judge stage has a key; the first answer that is stored stands. So every run that finds it
there has the same key, and a plan needs no endpoint.
"""

from collections.abc import Mapping

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import EndpointFailed
from gage_eval.engine.verdict_forms import VerdictForms, ask_forms, known_forms
from gage_eval.models.backends.base import without_freshness
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.store import Store


def settled_before(store: Store, spec: JudgeSpec, inputs: Mapping[str, str]) -> JudgeSpec:
    """The spec with the forms that are stored.

    Args:
        store: where forms and inputs are.
        spec: the judges.
        inputs: artifact ids of the judge stage's inputs.

    Raises:
        InputError: a stored form is damaged, or a second judge depends on probabilities that a judge does not give.
    """
    judges = {name: _as_text(spec, name) for name in spec.to_settle(store, inputs)}
    known = {name: known_forms(store).find(_identity(judge)) for name, judge in judges.items()}
    return _settled(spec, {name: forms for name, forms in known.items() if forms is not None})


def settle(env: StageContext, spec: JudgeSpec, inputs: Mapping[str, str]) -> JudgeSpec:
    """The spec with the forms of all judges that are asked. Judges whose form is not stored are asked for it.

    Raises:
        EndpointFailed: a judge does not answer.
        InputError: as `settled_before`.
    """
    for name in settled_before(env.store, spec, inputs).to_settle(env.store, inputs):
        judge = _as_text(spec, name)
        identity = _identity(judge)
        # Another task or run may ask at this moment.
        with env.store.lock(digest(identity), env.check):
            if known_forms(env.store).find(identity) is None:
                known_forms(env.store).keep_first(_ask(env, judge, identity))
    return settled_before(env.store, spec, inputs)


def _ask(env: StageContext, judge: GenerateSpec, identity: Mapping[str, JsonValue]) -> VerdictForms:
    try:
        backend = env.runtime.backend(judge.backend_type, judge.backend_config, judge.context)
        forms: VerdictForms = env.runtime.call(ask_forms(backend, identity, judge.params))
    except EndpointFailed as error:
        raise EndpointFailed(
            f"judge '{judge.adapter_id}' was asked for the form of its verdicts (verdict: auto), which is not settled: "
            f"{str(error).rstrip('.')}. After you have fixed it: {env.again('judge')}; or set its verdict."
        ) from error
    return forms


def _settled(spec: JudgeSpec, known: Mapping[str, VerdictForms]) -> JudgeSpec:
    best = {name: next(form for form in spec.unsettled[name] if form in forms.forms) for name, forms in known.items()}
    return spec.settled(best) if best else spec


def _as_text(spec: JudgeSpec, name: str) -> GenerateSpec:
    """A judge with no more parameters than its adapter has."""
    return spec.unsettled[name]["text"].spec


def _identity(judge: GenerateSpec) -> dict[str, JsonValue]:
    """What a judge's forms hold for."""
    model = judge.model_material
    own = model["model"] if "plugin" in model else model
    lasting = {**model, "model": without_freshness(own)} if "plugin" in model else without_freshness(own)
    return {"model": lasting, "params": dict(judge.params)}
