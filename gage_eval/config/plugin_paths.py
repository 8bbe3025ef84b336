"""Plug-in files of a config, whose paths are relative to the config's folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gage_eval.base.canonical import JsonValue
from gage_eval.config.models import (
    BackendEntry,
    DatasetConfig,
    MetricConfig,
    PipelineConfig,
    RoleAdapterConfig,
    TaskConfig,
)
from gage_eval.config.problems import Loc
from gage_eval.extend.loading import absolute_name, is_path, look_in
from gage_eval.scoring.harness.reads import FILE


@dataclass(frozen=True)
class NamedCode:
    """A name in a config that may refer to code.

    Attributes:
        loc: location of the name.
        kind: kind of plug-in, such as ``metrics``; None if only a class path or file is possible.
        name: the name; a file with its absolute path.
        written: the name as the config has it.
    """

    loc: Loc
    kind: str | None
    name: str
    written: str


def located(config: PipelineConfig, base_dir: Path) -> PipelineConfig:
    """The config with absolute paths of its plug-in files, which are relative to ``base_dir``.

    If the config names user code, its folder and those of the named files are appended to Python's path, so that
    modules next to them can be imported, after all others (`look_in`).
    """
    here, named = code_of(config, base_dir)
    folders = [Path(code.name.rpartition(":")[0]).parent for code in named if ".py:" in code.name]
    scripts = any(code.kind == "backends" and code.name == "custom_script" for code in named)
    if scripts or any(is_path(code.name) for code in named):
        folders.insert(0, base_dir.resolve())
    look_in(folders)
    return here


def code_of(config: PipelineConfig, base_dir: Path) -> tuple[PipelineConfig, list[NamedCode]]:
    """The config as `located` returns it, and every name in it that may refer to code. No file is read."""
    locate = _Locate(base_dir)
    here = config.model_copy(
        update={
            "datasets": [locate.dataset(("datasets", at), dataset) for at, dataset in enumerate(config.datasets)],
            "backends": [locate.backend(("backends", at), backend) for at, backend in enumerate(config.backends)],
            "role_adapters": [
                locate.adapter(("role_adapters", at), adapter) for at, adapter in enumerate(config.role_adapters)
            ],
            "metrics": [locate.metric(("metrics", at), metric) for at, metric in enumerate(config.metrics)],
            "tasks": [locate.task(("tasks", at), task) for at, task in enumerate(config.tasks)],
        }
    )
    return here, locate.named


class _Locate:
    def __init__(self, base_dir: Path) -> None:
        self._base_dir = base_dir
        self.named: list[NamedCode] = []

    def _name(self, loc: Loc, kind: str | None, name: str) -> str:
        located = absolute_name(name, self._base_dir)
        self.named.append(NamedCode(loc, kind, located, name))
        return located

    def _fields(self, loc: Loc, model: BaseModel, **kinds: str | None) -> dict[str, Any]:
        values = {field: getattr(model, field) for field in kinds}
        return {
            field: self._name((*loc, field), kinds[field], value)
            for field, value in values.items()
            if isinstance(value, str)
        }

    def dataset(self, loc: Loc, dataset: DatasetConfig) -> DatasetConfig:
        params = dataset.params
        named = self._fields(
            (*loc, "params"),
            params,
            preprocess="preprocessors",
            doc_to_text=None,
            doc_to_visual=None,
            doc_to_audio=None,
        )
        changed = {**self._fields(loc, dataset, loader="loaders"), "params": params.model_copy(update=named)}
        return dataset.model_copy(update=changed)

    def backend(self, loc: Loc, backend: BackendEntry) -> BackendEntry:
        return backend.model_copy(update=self._fields(loc, backend, type="backends"))

    def adapter(self, loc: Loc, adapter: RoleAdapterConfig) -> RoleAdapterConfig:
        changed: dict[str, Any] = self._fields(loc, adapter, class_path=None)
        changed["verdict_parser"] = self._filter((*loc, "verdict_parser"), "verdict_parsers", adapter.verdict_parser)
        changed["tools"] = [self._name((*loc, "tools", at), "tools", name) for at, name in enumerate(adapter.tools)]
        if adapter.backend is not None:
            named = self._fields((*loc, "backend"), adapter.backend, type="backends")
            changed["backend"] = adapter.backend.model_copy(update=named)
        return adapter.model_copy(update=changed)

    def metric(self, loc: Loc, metric: MetricConfig) -> MetricConfig:
        changed: dict[str, Any] = self._fields(loc, metric, implementation="metrics")
        if metric.implementation == "lm_eval":
            # The code of the task, which is part of the key by its content.
            self.named.append(NamedCode((*loc, "params", "sources"), None, str(self._base_dir / FILE), FILE))
        changed["filters"] = self._filters((*loc, "filters"), metric.filters)
        chosen, aggregation_loc = metric.aggregation, (*loc, "aggregation")
        if isinstance(chosen, str):
            changed["aggregation"] = self._name(aggregation_loc, "aggregations", chosen)
        elif chosen is not None:
            changed["aggregation"] = [
                self._name((*aggregation_loc, at), "aggregations", name) for at, name in enumerate(chosen)
            ]
        return metric.model_copy(update=changed)

    def task(self, loc: Loc, task: TaskConfig) -> TaskConfig:
        own = [
            self.metric((*loc, "metric_overrides", at), override) for at, override in enumerate(task.metric_overrides)
        ]
        changed: dict[str, Any] = {"metric_overrides": own}
        if task.execution is not None:
            filters = self._filters((*loc, "execution", "filters"), task.execution.filters)
            changed["execution"] = task.execution.model_copy(update={"filters": filters})
        return task.model_copy(update=changed)

    def _filter(self, loc: Loc, kind: str, entry: JsonValue) -> JsonValue:
        """A filter or verdict parser in any form: a name, a name with parameters, or a pipeline with steps."""
        if isinstance(entry, str):
            return self._name(loc, kind, entry)
        if not isinstance(entry, dict):
            return entry
        if isinstance(steps := entry.get("steps"), list):
            return {**entry, "steps": self._filters((*loc, "steps"), steps)}
        return {self._name(loc, kind, name): self._params(loc, name, params) for name, params in entry.items()}

    def _params(self, loc: Loc, name: str, params: JsonValue) -> JsonValue:
        """Parameters. Those of the verdict parser ``filters`` are filters themselves."""
        if name != "filters" or not isinstance(params, dict):
            return params
        return {key: self._filters((*loc, name, key), filters) for key, filters in params.items()}

    def _filters(self, loc: Loc, entries: JsonValue) -> JsonValue:
        if not isinstance(entries, list):
            return self._filter(loc, "filters", entries)
        return [self._filter((*loc, at), "filters", entry) for at, entry in enumerate(entries)]
