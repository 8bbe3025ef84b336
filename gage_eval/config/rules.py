"""The passes that fill in what a short config leaves out, by fixed rules.

Each rule has a name, which the origin of what it wrote names too. The rules of `NAMING` come before the command line,
which may name what they write; those of `FILLING` after command line and environment, in this order. An ``answer_type``
without metrics gets those of its scoring profile (`gage_eval.config.task_metrics`).

Rules read unvalidated values. They leave unreadable values unchanged, and the validation reports them.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from gage_eval.config.document import Document, Origin, copied
from gage_eval.config.models import (
    ROLE_SPELLINGS,
    STEP_SPELLINGS,
    MetricConfig,
    RoleType,
    StepName,
    implied_loader,
    is_id,
)
from gage_eval.config.problems import Loc
from gage_eval.config.sugar import metric_form
from gage_eval.config.task_types import apply_task_types

ROLE_OF_STEP: dict[StepName, RoleType] = {"support": "support", "inference": "dut_model", "judge": "judge_model"}
ADAPTER_KEY: dict[StepName, str] = {
    "support": "support_adapter_id",
    "inference": "adapter_id",
    "judge": "judge_adapter_id",
}
_METRIC_LISTS = ("metric_overrides", "metrics")


@dataclass(frozen=True)
class Rule:
    """A rule: its name, what it does in a sentence, and the pass."""

    name: str
    summary: str
    apply: Callable[[Document], None]


def name_parts(document: Document) -> None:
    """Give names to datasets, backends and tasks that have none."""
    for rule in NAMING:
        rule.apply(document)


def _by(rule: str, sentence: str) -> Origin:
    return Origin("rule", sentence, rule=rule)


def _datasets_of_files(document: Document) -> None:
    """A dataset may be its file alone; one without a name has that of its file."""
    sentence = "a dataset is called like its file"
    items = document.value(("datasets",))
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, str):
            document.respell(("datasets", index), {"params": {"path": item}}, {"params": ()})
    taken = set(_ids(document, "datasets", "dataset_id"))
    for index, dataset in document.mappings("datasets"):
        params = dataset.get("params")
        path = params.get("path") if isinstance(params, dict) else None
        if dataset.get("dataset_id") is not None or not isinstance(path, str):
            continue
        name = name_of_file(path)
        if is_id(name) and name not in taken:
            taken.add(name)
            document.put(("datasets", index, "dataset_id"), name, _by("dataset-name", sentence))


def name_of_file(path: str) -> str:
    """A dataset name for a file: its name up to the first dot, with characters that ids forbid replaced."""
    stem = PurePosixPath(path).name.partition(".")[0]
    return "".join(char if char.isalnum() or char in "_-+@" else "_" for char in stem).lstrip("-+@_") or "data"


def _backend_without_name(document: Document) -> None:
    backends = document.value(("backends",))
    if not isinstance(backends, list) or len(backends) != 1 or not isinstance(backends[0], dict):
        return
    described = backends[0].get("type", backends[0].get("block"))
    if backends[0].get("backend_id") is None and described is not None:
        document.put(("backends", 0, "backend_id"), "model", _by("backend-name", "the only backend is called 'model'"))


def name_implied_tasks(document: Document) -> None:
    """One task for each dataset where no tasks are given."""
    if document.value(("tasks",)) in (None, []):
        ids = dict.fromkeys(_ids(document, "datasets", "dataset_id"))
        if ids:
            tasks = [{"task_id": name, "dataset_id": name} for name in ids]
            document.put(("tasks",), tasks, _by("implied-tasks", "a config without tasks has one task per dataset"))


def apply_rules(document: Document) -> None:
    """Apply the rules one after another."""
    apply_task_types(document)
    _metrics_in_full(document)
    document.unruled = copied(document.data)
    for rule in FILLING:
        rule.apply(document)


def apply_rules_without_model(document: Document) -> None:
    """Apply the rules that need no model: names, task types, metrics in their full form, the loader of each dataset."""
    name_parts(document)
    apply_task_types(document)
    _metrics_in_full(document)
    _loader_of_datasets(document)


def write_out_metric(document: Document, loc: Loc) -> None:
    """Replace a metric by its full form, so that its settings can be changed."""
    short = document.value(loc)
    # The validation reports a short form that cannot be read.
    with contextlib.suppress(ValueError):
        full = metric_form(short, MetricConfig.model_fields)
        if full is not short:
            name = next(iter(short)) if isinstance(short, dict) else ""
            document.respell(loc, full, {"params": (name,)} if short and name not in full else {})


def _metrics_in_full(document: Document) -> None:
    lists: list[Loc] = [("metrics",)]
    lists += [("tasks", index, name) for index, _ in document.mappings("tasks") for name in _METRIC_LISTS]
    for loc in lists:
        metrics = document.value(loc)
        for index in range(len(metrics) if isinstance(metrics, list) else 0):
            write_out_metric(document, (*loc, index))


def _loader_of_datasets(document: Document) -> None:
    for index, dataset in document.mappings("datasets"):
        loader = implied_loader(dataset) if dataset.get("loader") is None else None
        if loader is not None:
            origin = _by("loader", f"the default loader of this data is '{loader}'")
            document.put(("datasets", index, "loader"), loader, origin)


def _adapter_of_backends(document: Document) -> None:
    if document.value(("role_adapters",)) not in (None, []):
        return
    ids = list(_ids(document, "backends", "backend_id"))
    if ids:
        adapters = [
            {"adapter_id": "dut" if len(ids) == 1 else name, "role_type": "dut_model", "backend_id": name}
            for name in dict.fromkeys(ids)
        ]
        origin = _by("implied-adapters", "without role_adapters, each backend is a model under test")
        document.put(("role_adapters",), adapters, origin)


def _backend_of_adapters(document: Document) -> None:
    ids = list(_ids(document, "backends", "backend_id"))
    if len(ids) == 1:
        for index, adapter in document.mappings("role_adapters"):
            if adapter.get("backend") is None and adapter.get("backend_id") is None:
                origin = _by("only-backend", "an adapter without a backend has the only one")
                document.put(("role_adapters", index, "backend_id"), ids[0], origin)


def _support_of_pairs(document: Document) -> None:
    for index, task in document.mappings("tasks"):
        against = task.get("against")
        other = against.get("adapter") if isinstance(against, dict) else None
        if is_id(other) and task.get("support_adapter_id") is None:
            origin = _by("pairs", "the other model of pairs is the support model")
            document.put(("tasks", index, "support_adapter_id"), other, origin)


def _steps_of_tasks(document: Document) -> None:
    if document.value(("custom",)) is not None or document.value(("builtin",)) is not None:
        return
    declared = set(_adapter_ids(document))
    names: list[StepName] = ["inference", "auto_eval"]
    if "judge_model" in declared:
        names.insert(1, "judge")
    if "support" in declared:
        names.insert(0, "support")
    for index, task in document.mappings("tasks"):
        if task.get("steps") is None:
            origin = _by("steps", "a task without steps has a step for each declared role")
            document.put(("tasks", index, "steps"), [{"step": name} for name in names], origin)


def _adapter_of_steps(document: Document) -> None:
    adapters = _adapter_ids(document)
    shared = document.value(("custom", "steps")) or document.value(("builtin", "steps"))
    for index, task in document.mappings("tasks"):
        own = task.get("steps")
        for name, adapter_id in _steps(shared if own is None else own):
            fitting = adapters.get(ROLE_OF_STEP[name], [])
            key = ADAPTER_KEY[name]
            if name == "judge" and task.get("judges"):
                continue
            if adapter_id is None and task.get(key) is None and len(fitting) == 1 and is_id(fitting[0]):
                origin = _by("only-adapter", f"the step '{name}' has the only {ROLE_OF_STEP[name]}")
                document.put(("tasks", index, key), fitting[0], origin)


NAMING = (
    Rule("dataset-name", "A dataset without a `dataset_id` is called like its file.", _datasets_of_files),
    Rule("backend-name", "A single backend without a `backend_id` is called `model`.", _backend_without_name),
    Rule("implied-tasks", "Without `tasks`, each dataset is a task of the same name.", name_implied_tasks),
)
FILLING = (
    Rule("loader", "Without `loader`, the ending of the file, the hub or the records choose it.", _loader_of_datasets),
    Rule(
        "implied-adapters",
        "Without `role_adapters`, each backend is a model under test: `dut` for a single one, else called like it.",
        _adapter_of_backends,
    ),
    Rule("only-backend", "An adapter without a backend takes the only one.", _backend_of_adapters),
    Rule("pairs", "The adapter of `against` is the support model of its task.", _support_of_pairs),
    Rule(
        "steps",
        "A task without `steps` asks the model and scores; also the support model and the judge, where there are any.",
        _steps_of_tasks,
    ),
    Rule("only-adapter", "A step is done by the only adapter of its role.", _adapter_of_steps),
)


def _ids(document: Document, section: str, key: str) -> Iterator[str]:
    return (item[key] for _, item in document.mappings(section) if is_id(item.get(key)))


def _adapter_ids(document: Document) -> dict[str, list[Any]]:
    """The ids of adapters by role."""
    out: dict[str, list[Any]] = {}
    for _, adapter in document.mappings("role_adapters"):
        role = adapter.get("role_type")
        if isinstance(role, str):
            out.setdefault(ROLE_SPELLINGS.get(role, role), []).append(adapter.get("adapter_id"))
    return out


def _steps(steps: Any) -> Iterator[tuple[StepName, Any]]:
    """The steps that call a model, each with its adapter."""
    for step in steps if isinstance(steps, list) else ():
        name = step.get("step") if isinstance(step, dict) else step
        if isinstance(name, str):
            known = STEP_SPELLINGS.get(name, name)
            calling = next((role_step for role_step in ROLE_OF_STEP if role_step == known), None)
            if calling is not None:
                yield calling, step.get("adapter_id") if isinstance(step, dict) else None
