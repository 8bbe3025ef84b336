"""The pass that fills in settings from the environment, where the config leaves them unset.

One variable overrides the config: ``VLLM_NATIVE_MODEL_PATH`` replaces the model of `vllm_native` backends, unless the
command line sets it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gage_eval.config.document import Document, Origin
from gage_eval.config.problems import Loc

_MEDIA = ("embed_local_media", "image_min_pixels", "image_max_pixels", "image_factor")
_CONCURRENCY = ("max_concurrency", "async_max_concurrency")


@dataclass(frozen=True)
class EnvironmentValue:
    """A value from an environment variable."""

    variable: str
    value: Any


def set_from_environment(document: Document, settings: Mapping[str, EnvironmentValue]) -> None:
    """Put values from the environment into the config.

    Args:
        document: the config, with its tasks named.
        settings: the values by name of the setting (`gage_eval.config.settings.Settings`); other names are ignored.
    """

    def put(loc: Loc, name: str) -> None:
        document.put(loc, settings[name].value, Origin("environment", settings[name].variable))

    _exports(document, settings)
    params = {
        dataset.get("dataset_id"): _mapping(dataset.get("params"))
        for _, dataset in document.mappings("datasets")
        if isinstance(dataset.get("dataset_id"), str)
    }
    for index, task in document.mappings("tasks"):
        own = params.get(task["dataset_id"], {}) if isinstance(task.get("dataset_id"), str) else {}
        if "max_samples" in settings and task.get("max_samples") is None:
            put(("tasks", index, "max_samples"), "max_samples")
        for name, keys in (("shuffle", ("shuffle",)), ("shuffle_seed", ("seed", "shuffle_seed"))):
            if name in settings and task.get(name) is None and all(own.get(key) is None for key in keys):
                put(("tasks", index, name), name)
    for index, dataset in document.mappings("datasets"):
        for name in _MEDIA:
            if name in settings and holds_mapping(dataset, "params") and not _says(dataset, name):
                put(("datasets", index, "params", name), name)
    for loc, backend in document.backends():
        if not holds_mapping(backend, "config"):
            continue
        config = _mapping(backend.get("config"))
        if "threads" in settings and not any(key in config for key in _CONCURRENCY):
            put((*loc, "config", "max_concurrency"), "threads")
        if "future_timeout" in settings and config.get("timeout") is None:
            put((*loc, "config", "timeout"), "future_timeout")
        if "vllm_native_model_path" in settings and backend.get("type") == "vllm_native":
            origin = document.origin((*loc, "config", "model_path"))
            if origin is None or origin.kind != "command line":
                put((*loc, "config", "model_path"), "vllm_native_model_path")


def _exports(document: Document, settings: Mapping[str, EnvironmentValue]) -> None:
    """The files of samples that the environment asks for, where the config names no exports."""
    if document.value(("export",)) is not None:
        return
    wanted = (("disable_buffered_writer", "per_sample_json"), ("enable_buffered_writer", "jsonl"))
    for name, export in wanted:
        if name in settings and settings[name].value:
            document.put(("export",), [export], Origin("environment", settings[name].variable))
            return


def local_model(path: str) -> str:
    """A given model path. A local path is relative to the working folder, not to the config's folder."""
    return os.path.abspath(path) if os.path.exists(path) else path


def holds_mapping(item: Mapping[str, Any], key: str) -> bool:
    """Whether values can be put under a key: it holds a mapping or nothing. The validation refuses anything else."""
    return item.get(key) is None or isinstance(item[key], dict)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _says(dataset: Mapping[str, Any], name: str) -> bool:
    """Whether a dataset sets a parameter. An empty value counts as set if the parameter's default is None."""
    # Settings are read by commands that need no config.
    from gage_eval.config.models import DatasetParams

    params = _mapping(dataset.get("params"))
    return params.get(name) is not None or (name in params and DatasetParams.model_fields[name].default is None)
