"""What determines the key of an action.

A key is the digest of a stage's name, its version, the material of its spec and the ids of the artifacts that go in.
Versions are here and not in the stages, because a plan must know every key without computing anything.
"""

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

from gage_eval.base.canonical import JsonValue
from gage_eval.base.stages import STAGES, Stage
from gage_eval.pipeline.outputs import table_of
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.store import Action, Store

# Raise a stage's version when the same inputs give another output.
VERSIONS: Mapping[Stage, int] = {
    "load": 1,
    "standardize": 7,
    "preprocess": 6,
    "support": 5,
    "infer": 3,
    "judge": 4,
    "auto_eval": 9,
    "report": 12,
}
# Versions of steps within stages: a metric's scores, the rendering of a role's requests.
SCORES_VERSION = 6
RENDER_VERSION = 3

# Inputs that are named after their use. All others have the name of the output they take.
_TAKES: Mapping[str, str] = {"few_shot": "samples"}


class StageSpec(Protocol):
    """The work of a stage, resolved from the config."""

    @property
    def task_id(self) -> str: ...

    def material(self) -> JsonValue:
        """Everything in the spec that determines the stage's result: values, code and data identities."""


@runtime_checkable
class ReadsInputs(Protocol):
    """A spec whose stage depends on more than the spec, and that more is found in its inputs: files they name, say."""

    def input_material(self, store: Store, inputs: Mapping[str, str]) -> dict[str, JsonValue]:
        """Further sections of the key's document, by name; empty where the inputs ask for nothing."""


def action_document(stage: Stage, spec: StageSpec, inputs: Mapping[str, str], store: Store) -> dict[str, JsonValue]:
    """The document whose digest is the key of a stage's action.

    Args:
        stage: its name.
        spec: the stage's spec.
        inputs: artifact ids by input.
        store: where the inputs are.
    """
    material = spec.input_material(store, inputs) if isinstance(spec, ReadsInputs) else {}
    return {"stage": stage, "version": VERSIONS[stage], "spec": spec.material(), "inputs": dict(inputs), **material}


def scores_document(
    metric: BoundMetric, inputs: Mapping[str, str], overriding: Collection[str] = (), *, own_settings: bool = False
) -> dict[str, JsonValue]:
    """What determines the key of one metric's scores.

    Args:
        metric: the metric. Only the inputs it reads matter.
        inputs: artifact ids by input of auto_eval.
        overriding: names in the samples' ``eval_config`` that change its scores. The samples hold the parameters, but
            the metrics' names decide which metric they belong to.
        own_settings: samples have an ``eval_config``, which all metrics read.
    """
    read = metric.inputs | {"samples"} if own_settings else metric.inputs
    document: dict[str, JsonValue] = {
        "stage": "scores",
        "version": SCORES_VERSION,
        "metric": metric.identity()["scores"],
        "inputs": {name: inputs[name] for name in sorted(read)},
    }
    if overriding:
        # If both of a metric's names match, the id counts before the implementation's name.
        document["overriding"] = {name: name == metric.metric_id for name in overriding}
    return document


def finished_action(store: Store, stage: Stage, key: str) -> Action | None:
    """The finished action of a key. Its outputs are those of the stage, and all are stored and whole.

    Raises:
        ArtifactDamaged: a stored output is damaged.
    """
    action = store.actions.find(stage, key)
    return action if action is not None and has_outputs_of(stage, action) else None


def has_outputs_of(stage: Stage, action: Action) -> bool:
    """Whether an action that the store found has the outputs of a stage, each with the table it should hold."""
    return all(name in action.outputs for name in STAGES[stage].outputs) and all(
        artifact.manifest.table == table_of(name) for name, artifact in action.artifacts.items()
    )


def input_id(name: str, outputs: Mapping[str, str]) -> str:
    """The artifact id that an input takes from the outputs of the stage before."""
    return outputs[_TAKES.get(name, name)]
