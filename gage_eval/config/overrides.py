"""Values given on the command line, put into a config before it is checked.

A path names list items by index or by id: ``backends.local.config.model=x``, ``tasks[0].max_samples=5``. An
id may hold dots. The value is read like one in the file (``5`` is a number, ``'5'`` is text, ``{a: 1}`` is a
mapping), but without placeholders.
"""

import contextlib
import os
import re
from collections.abc import Sequence
from typing import Any

from gage_eval import registry
from gage_eval.config import yaml_lines
from gage_eval.config.interpolate import fill
from gage_eval.config.models import ROLE_SPELLINGS, MetricConfig
from gage_eval.config.problems import Loc, path_text
from gage_eval.config.sugar import metric_form
from gage_eval.errors import ConfigError, InputError, closest

_INDEX = re.compile(r"\[(\d{1,6})\]")
_NUMBER = re.compile(r"\d{1,6}")
# The field that names an item, by the list the item is in.
_ID_FIELDS = {
    "datasets": "dataset_id",
    "backends": "backend_id",
    "role_adapters": "adapter_id",
    "prompts": "prompt_id",
    "metrics": "metric_id",
    "metric_overrides": "metric_id",
    "tasks": "task_id",
    "steps": "step",
}
# What backends call their model; the first that a backend knows is set.
_MODEL_FIELDS = ("model_path", "model_name_or_path", "model")


def apply_overrides(
    data: dict[str, Any],
    overrides: Sequence[str] = (),
    *,
    max_samples: int | None = None,
    model_path: str | None = None,
) -> list[Loc]:
    """Change a config's values in place.

    Args:
        data: the config as plain values, not validated yet.
        overrides: ``path=value`` each, applied in order.
        max_samples: the limit of every task.
        model_path: the model of the backend under test.

    Returns:
        The places that were set.

    Raises:
        InputError: an override that cannot be read, or a path to nothing.
    """
    set_places = [_apply(data, text) for text in overrides]
    if max_samples is not None:
        if max_samples < 1:
            raise InputError(f"--max-samples {max_samples}: give a number of samples, 1 or more.")
        for index, task in enumerate(_tasks(data)):
            if isinstance(task, dict):
                task["max_samples"] = max_samples
                set_places.append(("tasks", index, "max_samples"))
    if model_path is not None:
        set_places.append(_set_model(data, model_path))
    return set_places


def _apply(data: dict[str, Any], text: str) -> Loc:
    path, equals, value = text.partition("=")
    segments = _INDEX.sub(r".\1", path.strip()).split(".")
    if not equals or "" in segments:
        raise InputError(f"--set {text}: write path=value, as in backends.local.config.model=name.")
    if segments[0] == "tasks":
        _tasks(data)
    here: Any = data
    loc: Loc = ()
    while True:
        step, used = _step(here, segments, text, loc)
        segments = segments[used:]
        loc = (*loc, step)
        if not segments:
            here[step] = _value(value, text)
            return loc
        if isinstance(here, dict) and here.get(step) is None:
            here[step] = {}
        here = here[step]


def _step(here: Any, segments: list[str], text: str, loc: Loc) -> tuple[str | int, int]:
    """The next key or index, and how many segments it took."""
    if isinstance(here, dict):
        return segments[0], 1
    if not isinstance(here, list):
        raise InputError(f"--set {text}: '{path_text(loc)}' holds a single value, nothing below it.")
    if _NUMBER.fullmatch(segments[0]) and int(segments[0]) < len(here):
        return int(segments[0]), 1
    ids = _ids(here, loc)
    for used in range(len(segments), 0, -1):
        name = ".".join(segments[:used])
        if name in ids:
            return ids[name], used
    name, known = segments[0], ", ".join(ids) or "nothing"
    raise InputError(f"--set {text}: no '{name}' in '{path_text(loc)}'. It holds: {known}.{closest(name, ids)}")


def _ids(items: list[Any], loc: Loc) -> dict[str, int]:
    """Index by id of a list's items; short forms are written out in place, to have fields to set."""
    section = str(loc[-1]) if loc else ""
    field = _ID_FIELDS.get(section)
    if field is None:
        return {}
    out: dict[str, int] = {}
    for index, item in enumerate(items):
        if field == "metric_id":
            # A short form that cannot be read is left for the check of the config to refuse.
            with contextlib.suppress(ValueError):
                items[index] = metric_form(item, MetricConfig.model_fields)
        elif field == "step" and isinstance(item, str):
            items[index] = {"step": item}
        name = items[index].get(field) if isinstance(items[index], dict) else None
        if isinstance(name, str):
            out.setdefault(name, index)
    return out


def _tasks(data: dict[str, Any]) -> list[Any]:
    """The list of tasks, with the implied ones written out (see `gage_eval.config.check.expand`)."""
    tasks = data.get("tasks")
    if isinstance(tasks, list) and tasks:
        return tasks
    datasets = data.get("datasets")
    ids = _ids(datasets, ("datasets",)) if isinstance(datasets, list) else {}
    if tasks in (None, []) and ids:
        data["tasks"] = [{"task_id": name, "dataset_id": name} for name in ids]
        return list(data["tasks"])
    return []


def _value(text: str, override: str) -> Any:
    try:
        # No placeholders: a shell has its own. Written as in the file, `$${` is a literal `${`.
        return fill(yaml_lines.parse(text.replace("${", "$${"), "--set"), {}).value if text.strip() else ""
    except ConfigError as error:
        raise InputError(f"--set {override}: {error.problems[0].message}") from error


def _set_model(data: dict[str, Any], model_path: str) -> Loc:
    loc, backend = _dut_backend(data)
    config = backend.get("config")
    if not isinstance(config, dict):
        config = backend["config"] = {}
    try:
        model = registry.backends.get(str(backend.get("type"))).info.get("config")
    except InputError:
        # The check of the config says that there is no such backend.
        model = None
    declared = list(config) if model is None else list(model.model_fields)
    field = next((name for name in _MODEL_FIELDS if name in declared), None)
    if field is None:
        raise InputError(
            f"--model-path: backend type '{backend.get('type')}' takes no model; use --set for its settings."
        )
    # A path on this machine counts from where the command was given, not from the config's folder.
    config[field] = os.path.abspath(model_path) if os.path.exists(model_path) else model_path
    return (*loc, "config", field)


def _dut_backend(data: dict[str, Any]) -> tuple[Loc, dict[str, Any]]:
    """The only backend under test, as written."""
    backends = data.get("backends") or []
    adapters = data.get("role_adapters") or []
    duts = [
        (index, item)
        for index, item in enumerate(adapters if isinstance(adapters, list) else [])
        if isinstance(item, dict)
        and ROLE_SPELLINGS.get(str(item.get("role_type")), item.get("role_type")) == "dut_model"
    ]
    listed = [item for item in backends if isinstance(item, dict)] if isinstance(backends, list) else []
    if len(duts) == 1:
        index, adapter = duts[0]
        if isinstance(adapter.get("backend"), dict):
            return ("role_adapters", index, "backend"), adapter["backend"]
        if adapter.get("backend_id") is not None:
            listed = [item for item in listed if item.get("backend_id") == adapter["backend_id"]]
    if len(duts) > 1 or len(listed) != 1:
        raise InputError("--model-path: the config has not one model under test; name the backend with --set.")
    return ("backends", backends.index(listed[0])), listed[0]
