"""Differences of two action documents, in the words of a config."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from gage_eval.base.canonical import JsonValue
from gage_eval.base.stages import STAGES, Stage
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.specs import TaskPlan

Path: TypeAlias = tuple[str, ...]

_INPUTS: Mapping[str, str] = {
    "raw": "the records",
    "samples": "the samples",
    "prepared": "the requests",
    "support_responses": "the support model's answers",
    "responses": "the responses",
    "response_telemetry": "the responses' timings",
    "judgments": "the judgments",
    "metrics": "the metrics",
    "rejects": "the rejected records",
    "prepare_rejects": "the samples that could not be prepared",
    "few_shot": "the few-shot examples",
    "executions": "the executions",
}
# Sections of a document that specs find in their inputs (`keys.ReadsInputs`).
_OF_INPUTS: Mapping[str, str] = {
    "asks": "what samples set for the judge",
    "unknown_metrics": "metrics that samples name and the config lacks",
    "execution": "execution",
}
# Prefixes of paths below `spec` and their names for users. A trailing `.` keeps the rest of the path.
_OF_STAGE: Mapping[str, tuple[tuple[Path, str], ...]] = {
    "load": (
        (("data",), "the data"),
        (("loader", "name"), "loader"),
        (("loader",), "the loader's code"),
        (("shuffle",), "shuffle"),
        ((), "params."),
    ),
    "standardize": (
        (("preprocess", "name"), "params.preprocess"),
        (("preprocess",), "the preprocessor's code"),
        (("kwargs",), "preprocess_kwargs."),
    ),
    "preprocess": (
        (("params",), "sampling_params."),
        (("sample_ids",), "the chosen samples"),
        (("few_shot",), "few_shot."),
        (("media", "images"), "images."),
        (("drawn_by",), "task_id"),
        (("lists_options",), "prompt_id or mode"),
    ),
    "report": (),
}
_OF_ROLE: tuple[tuple[Path, str], ...] = (
    (("model", "backend", "name"), "the backend's type"),
    (("model", "backend"), "the backend's code"),
    (("model", "config"), "backend config."),
    (("model",), "the model."),
    (("pairs",), "against"),
    (("render",), "the way prompts are rendered"),
)


def differing(old: JsonValue, new: JsonValue) -> list[Path]:
    """Paths of the leaves in which two documents differ, inputs first."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    missing = object()
    paths = [path for path in {**after, **before} if before.get(path, missing) != after.get(path, missing)]
    # If an empty object was filled, its fields are the difference, not the object.
    above = {path[:length] for path in paths for length in range(len(path))}
    return sorted((path for path in paths if path not in above), key=lambda path: path[:1] != ("inputs",))


def in_config_words(stage: Stage, path: Path, task: TaskPlan) -> str:
    """The name of a path of a stage's document in the config: ``prompts.mc.template``.

    Args:
        stage: stage of the document.
        path: path of a leaf.
        task: the task, which knows the config's ids of its prompt and adapters.
    """
    section, rest = path[0], path[1:]
    if section == "inputs" and rest:
        return _INPUTS.get(rest[0], rest[0])
    if section == "version":
        return f"the version of {stage}"
    if section in _OF_INPUTS:
        return _OF_INPUTS[section]
    if section == "files":
        return "the version of Pillow" if path[-1] == "pillow" else "the media files"
    if section != "spec":
        return ".".join(path)
    if stage == "auto_eval":
        return _of_metric(rest, task)
    if stage == "judge" and rest[:1] == ("generate",):
        return _of_role(rest[1:], task.judge.generate)
    if STAGES[stage].phase == "inference":
        return _of_role(rest, task.generate_spec(stage))
    if stage == "judge":
        return "the judge"
    return _named(rest, _OF_STAGE[stage])


def _of_role(path: Path, spec: GenerateSpec | None) -> str:
    if spec is not None and path[:1] == ("prompt",) and spec.prompt is not None:
        return ".".join(("prompts", spec.prompt.prompt_id, *path[1:]))
    if spec is not None and path[:1] == ("params",):
        return ".".join(("role_adapters", spec.adapter_id, "sampling_params", *path[1:]))
    return _named(path, _OF_ROLE)


def _of_metric(path: Path, task: TaskPlan) -> str:
    metrics = task.auto_eval.metrics
    if path and path[0].isdigit() and int(path[0]) < len(metrics):
        return f"metrics.{metrics[int(path[0])].metric_id}"
    return "metrics"


def _named(path: Path, names: tuple[tuple[Path, str], ...]) -> str:
    for start, words in names:
        if path[: len(start)] == start:
            rest = path[len(start) :]
            return ".".join((words.removesuffix("."), *rest)) if words.endswith(".") and rest else words.rstrip(".")
    return ".".join(path)


def _leaves(value: JsonValue, path: Path = ()) -> Iterator[tuple[Path, JsonValue]]:
    """Every leaf of a JSON value; an empty object or list is a leaf itself."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, str(index)))
    else:
        yield path, value
