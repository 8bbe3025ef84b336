"""``task_type`` of a dataset: the preprocessor, the prompt and the metric that such a task usually has.

It only fills in what is unset: ``preprocess`` and its options, and the metrics of tasks that have none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gage_eval.base.errors import closest
from gage_eval.config.document import Document, Origin
from gage_eval.config.problems import ConfigProblem

RULE = "task-type"


@dataclass(frozen=True)
class TaskDefaults:
    """The usual settings of a type of task.

    Attributes:
        preprocess: the preprocessor.
        kwargs: its options, prompts among them.
        metric: the metric; None where there is none without a judge or a sandbox.
    """

    preprocess: str = "default"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    metric: str | None = None


_SHORT = "Answer with a word, a number or a short phrase only."

TASK_TYPES: Mapping[str, TaskDefaults] = {
    "multiple-choice": TaskDefaults("multi_choice", {}, "multi_choice_accuracy"),
    "short-answer": TaskDefaults("default", {"task_type": "short-answer", "system_prompt": _SHORT}, "exact_match"),
    "dialogue": TaskDefaults("strip_assistant", {"task_type": "dialogue"}, "rouge"),
    "audio-translation": TaskDefaults("default", {"task_type": "audio-translation"}, "bleu"),
    "image-qa": TaskDefaults("default", {"task_type": "image-qa", "system_prompt": _SHORT}, "exact_match"),
    "video-qa": TaskDefaults("default", {"task_type": "video-qa", "system_prompt": _SHORT}, "exact_match"),
    "doc-qa": TaskDefaults("docvqa", {}, "docvqa_anls"),
    "text-to-image": TaskDefaults("default", {"task_type": "text-to-image"}),
    "image-to-image": TaskDefaults("default", {"task_type": "image-to-image"}),
    "text-to-audio": TaskDefaults("default", {"task_type": "text-to-audio"}),
    "text-to-video": TaskDefaults("default", {"task_type": "text-to-video"}),
    "code-generation": TaskDefaults("default", {"task_type": "code-generation"}),
    "agent": TaskDefaults("agent", {}, "tool_call_match"),
    "preference": TaskDefaults("preference", {}, "pairwise_win"),
}


def apply_task_types(document: Document) -> None:
    """Fill in what the types of the datasets give."""
    metrics: dict[str, tuple[str, Origin]] = {}
    for index, dataset in document.mappings("datasets"):
        if "task_type" not in dataset:
            continue
        task_type = document.take(("datasets", index, "task_type"))
        if task_type is None:
            continue
        name = task_type.replace("_", "-") if isinstance(task_type, str) else ""
        defaults = TASK_TYPES.get(name)
        if defaults is None:
            known = ", ".join(TASK_TYPES)
            message = f"no task type '{task_type}'. Types: {known}.{closest(str(task_type), TASK_TYPES)}"
            document.add([ConfigProblem(("datasets", index, "task_type"), message)])
            continue
        origin = Origin("rule", f"a {name} task has it", rule=RULE)
        _preprocess(document, index, dataset, defaults, origin)
        dataset_id = dataset.get("dataset_id")
        if defaults.metric is not None and isinstance(dataset_id, str):
            metrics[dataset_id] = (defaults.metric, origin)
    if document.value(("metrics",)) not in (None, []):
        return
    for index, task in document.mappings("tasks"):
        has_own = any(task.get(key) not in (None, []) for key in ("metrics", "metric_overrides", "answer_type"))
        dataset_id = task.get("dataset_id")
        if isinstance(dataset_id, str) and dataset_id in metrics and not has_own:
            metric, origin = metrics[dataset_id]
            key = "metrics" if "metrics" in task else "metric_overrides"
            document.put(("tasks", index, key), [metric], origin)


def _preprocess(
    document: Document, index: int, dataset: dict[str, Any], defaults: TaskDefaults, origin: Origin
) -> None:
    params = dataset.get("params")
    if params is not None and not isinstance(params, dict):
        return
    params = params or {}
    # A preprocessor that the config names knows its own prompt.
    if params.get("preprocess") is not None:
        return
    document.put(("datasets", index, "params", "preprocess"), defaults.preprocess, origin)
    own = params.get("preprocess_kwargs")
    if own is not None and not isinstance(own, dict):
        return
    for key, value in defaults.kwargs.items():
        if key not in (own or {}):
            document.put(("datasets", index, "params", "preprocess_kwargs", key), value, origin)
