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
from gage_eval.extend.loading import beside, is_path, look_in


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
    folders = [Path(one.name.rpartition(":")[0]).parent for one in named if ".py:" in one.name]
    scripts = any(one.kind == "backends" and one.name == "custom_script" for one in named)
    if scripts or any(is_path(one.name) for one in named):
        folders.insert(0, base_dir.resolve())
    look_in(folders)
    return here


def code_of(config: PipelineConfig, base_dir: Path) -> tuple[PipelineConfig, list[NamedCode]]:
    """The config as `located` returns it, and every name in it that may refer to code. No file is read."""
    locate = _Locate(base_dir)
    here = config.model_copy(
        update={
            "datasets": [locate.dataset(("datasets", at), one) for at, one in enumerate(config.datasets)],
            "backends": [locate.backend(("backends", at), one) for at, one in enumerate(config.backends)],
            "role_adapters": [
                locate.adapter(("role_adapters", at), one) for at, one in enumerate(config.role_adapters)
            ],
            "metrics": [locate.metric(("metrics", at), one) for at, one in enumerate(config.metrics)],
            "tasks": [locate.task(("tasks", at), one) for at, one in enumerate(config.tasks)],
        }
    )
    return here, locate.named


class _Locate:
    def __init__(self, base_dir: Path) -> None:
        self._base_dir = base_dir
        self.named: list[NamedCode] = []

    def _name(self, loc: Loc, kind: str | None, name: str) -> str:
        found = beside(name, self._base_dir)
        self.named.append(NamedCode(loc, kind, found, name))
        return found

    def _fields(self, loc: Loc, model: BaseModel, **kinds: str | None) -> dict[str, Any]:
        given = {field: getattr(model, field) for field in kinds}
        return {
            field: self._name((*loc, field), kinds[field], value)
            for field, value in given.items()
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
        if adapter.backend is not None:
            named = self._fields((*loc, "backend"), adapter.backend, type="backends")
            changed["backend"] = adapter.backend.model_copy(update=named)
        return adapter.model_copy(update=changed)

    def metric(self, loc: Loc, metric: MetricConfig) -> MetricConfig:
        changed: dict[str, Any] = self._fields(loc, metric, implementation="metrics")
        changed["filters"] = self._filters((*loc, "filters"), metric.filters)
        chosen, aggregation_loc = metric.aggregation, (*loc, "aggregation")
        if isinstance(chosen, str):
            changed["aggregation"] = self._name(aggregation_loc, "aggregations", chosen)
        elif chosen is not None:
            changed["aggregation"] = [
                self._name((*aggregation_loc, at), "aggregations", one) for at, one in enumerate(chosen)
            ]
        return metric.model_copy(update=changed)

    def task(self, loc: Loc, task: TaskConfig) -> TaskConfig:
        own = [self.metric((*loc, "metric_overrides", at), one) for at, one in enumerate(task.metric_overrides)]
        return task.model_copy(update={"metric_overrides": own})

    def _filter(self, loc: Loc, kind: str, given: JsonValue) -> JsonValue:
        """A filter or verdict parser in any form: a name, a name with parameters, or a pipeline with steps."""
        if isinstance(given, str):
            return self._name(loc, kind, given)
        if not isinstance(given, dict):
            return given
        if isinstance(steps := given.get("steps"), list):
            return {**given, "steps": self._filters((*loc, "steps"), steps)}
        return {self._name(loc, kind, name): self._params(loc, name, params) for name, params in given.items()}

    def _params(self, loc: Loc, name: str, params: JsonValue) -> JsonValue:
        """Parameters. Those of the verdict parser ``filters`` are filters themselves."""
        if name != "filters" or not isinstance(params, dict):
            return params
        return {key: self._filters((*loc, name, key), filters) for key, filters in params.items()}

    def _filters(self, loc: Loc, given: JsonValue) -> JsonValue:
        if not isinstance(given, list):
            return self._filter(loc, "filters", given)
        return [self._filter((*loc, at), "filters", one) for at, one in enumerate(given)]
