"""Plug-ins of a config, found from the config's folder like everything else it names."""

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gage_eval.canonical import JsonValue
from gage_eval.config.models import (
    BackendEntry,
    DatasetConfig,
    MetricConfig,
    PipelineConfig,
    RoleAdapterConfig,
    TaskConfig,
)
from gage_eval.foreign import beside, is_path


def located(config: PipelineConfig, base_dir: Path) -> PipelineConfig:
    """The config with the files of its plug-ins named from ``base_dir``.

    A config that names code of its user has the folder appended to Python's path: modules beside the config are
    found there, after all others.
    """
    locate = _Locate(base_dir)
    here = config.model_copy(
        update={
            "datasets": [locate.dataset(one) for one in config.datasets],
            "backends": [locate.backend(one) for one in config.backends],
            "role_adapters": [locate.adapter(one) for one in config.role_adapters],
            "metrics": [locate.metric(one) for one in config.metrics],
            "tasks": [locate.task(one) for one in config.tasks],
        }
    )
    folder = str(base_dir.resolve())
    if locate.any_path and folder not in sys.path:
        sys.path.append(folder)
    return here


class _Locate:
    def __init__(self, base_dir: Path) -> None:
        self._base_dir = base_dir
        self.any_path = False

    def _name(self, name: str) -> str:
        self.any_path = self.any_path or is_path(name)
        return beside(name, self._base_dir)

    def _fields(self, model: BaseModel, *fields: str) -> dict[str, Any]:
        given = {field: getattr(model, field) for field in fields}
        return {field: self._name(value) for field, value in given.items() if isinstance(value, str)}

    def dataset(self, dataset: DatasetConfig) -> DatasetConfig:
        params = dataset.params
        named = self._fields(params, "preprocess", "doc_to_text", "doc_to_visual", "doc_to_audio")
        changed = {**self._fields(dataset, "loader"), "params": params.model_copy(update=named)}
        return dataset.model_copy(update=changed)

    def backend(self, backend: BackendEntry) -> BackendEntry:
        if backend.type == "custom_script":
            self.any_path = True
        return backend.model_copy(update=self._fields(backend, "type"))

    def adapter(self, adapter: RoleAdapterConfig) -> RoleAdapterConfig:
        changed: dict[str, Any] = self._fields(adapter, "class_path")
        changed["verdict_parser"] = self._filter(adapter.verdict_parser)
        if adapter.backend is not None:
            changed["backend"] = adapter.backend.model_copy(update=self._fields(adapter.backend, "type"))
        return adapter.model_copy(update=changed)

    def metric(self, metric: MetricConfig) -> MetricConfig:
        changed: dict[str, Any] = self._fields(metric, "implementation")
        changed["filters"] = self._filters(metric.filters)
        chosen = metric.aggregation
        if chosen is not None:
            changed["aggregation"] = self._name(chosen) if isinstance(chosen, str) else [*map(self._name, chosen)]
        return metric.model_copy(update=changed)

    def task(self, task: TaskConfig) -> TaskConfig:
        return task.model_copy(update={"metric_overrides": [self.metric(one) for one in task.metric_overrides]})

    def _filter(self, given: JsonValue) -> JsonValue:
        """A filter or verdict parser in any form: a name, a name with parameters, or a pipeline with steps."""
        if isinstance(given, str):
            return self._name(given)
        if not isinstance(given, dict):
            return given
        if isinstance(steps := given.get("steps"), list):
            return {**given, "steps": self._filters(steps)}
        return {self._name(name): self._params(name, params) for name, params in given.items()}

    def _params(self, name: str, params: JsonValue) -> JsonValue:
        """Parameters, which of the verdict parser ``filters`` are filters themselves."""
        if name != "filters" or not isinstance(params, dict):
            return params
        return {key: self._filters(filters) for key, filters in params.items()}

    def _filters(self, given: JsonValue) -> JsonValue:
        return [self._filter(one) for one in given] if isinstance(given, list) else self._filter(given)
