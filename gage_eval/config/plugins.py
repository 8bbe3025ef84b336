"""Checks the names and settings of plug-ins in a config."""

import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest, nearest
from gage_eval.config.data_origins import load_origin
from gage_eval.config.models import (
    BackendEntry,
    DatasetConfig,
    InlineBackend,
    PipelineConfig,
    RoleAdapterConfig,
    origin_patterns,
)
from gage_eval.config.problems import ConfigProblem, Loc, path_text
from gage_eval.config.validation_messages import describe, plain_words, spellings_of
from gage_eval.data.datasets.origins import origin_paths
from gage_eval.engine.tools.mcp import McpServer
from gage_eval.engine.tools.sets import tools_of
from gage_eval.extend import registry
from gage_eval.extend.loading import without_folders
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend, config_model
from gage_eval.models.client.sampling import wrong_parameters
from gage_eval.scoring.metrics.verdicts import read_parser


def check_plugins(config: PipelineConfig, context: BackendContext) -> tuple[list[ConfigProblem], list[str]]:
    """(problems, warnings) about the names and settings of plug-ins.

    Args:
        config: the config, with its plug-in files `located`.
        context: what backends are built with.
    """
    checker = _Checker(context)
    for index, dataset in enumerate(config.datasets):
        checker.dataset(("datasets", index), dataset)
    for index, backend in enumerate(config.backends):
        checker.backend(("backends", index), backend)
    for index, adapter in enumerate(config.role_adapters):
        if adapter.backend is not None:
            checker.backend(("role_adapters", index, "backend"), adapter.backend)
        checker.verdict_parser(("role_adapters", index, "verdict_parser"), adapter.verdict_parser)
        checker.tools(("role_adapters", index, "tools"), adapter)
        checker.sampling(("role_adapters", index, "sampling_params"), adapter.sampling_params)
    for index, task in enumerate(config.tasks):
        checker.sampling(("tasks", index, "sampling_params"), task.sampling_params)
    return checker.problems, checker.warnings


class _Checker:
    def __init__(self, context: BackendContext) -> None:
        self._context = context
        self.problems: list[ConfigProblem] = []
        self.warnings: list[str] = []

    @contextmanager
    def _reported(self, loc: Loc) -> Iterator[None]:
        """Make an error of the user's a problem at a location."""
        try:
            yield
        except InputError as error:
            self.problems.append(ConfigProblem(loc, str(error), error))

    def plugin(self, kind: str, name: str, loc: Loc) -> registry.Plugin[Any] | None:
        try:
            return registry.ALL[kind].get(name)
        except InputError as error:
            self.problems.append(ConfigProblem(loc, str(error), error))
            return None

    def dataset(self, loc: Loc, dataset: DatasetConfig) -> None:
        loader = self.plugin("loaders", dataset.loader, (*loc, "loader"))
        if loader is not None:
            self._loader_params((*loc, "params"), dataset, loader)
        params = dataset.params
        if params.origin is not None:
            self._origin((*loc, "params"), dataset, params.origin)
        if params.filter is not None:
            from gage_eval.data.datasets import Filter

            with self._reported((*loc, "params", "filter")):
                Filter(params.filter)
        preprocessor = self.plugin("preprocessors", params.preprocess, (*loc, "params", "preprocess"))
        if preprocessor is not None:
            self._arguments((*loc, "params", "preprocess_kwargs"), params.preprocess_kwargs, preprocessor)
        for name in ("doc_to_text", "doc_to_visual", "doc_to_audio"):
            if (path := getattr(params, name)) is not None:
                from gage_eval.data.standardize.callables import TextCallable

                kwargs = getattr(params, f"{name}_kwargs")
                with self._reported((*loc, "params", name)):
                    _ = TextCallable(path, kwargs, params.preprocess_kwargs).arguments

    def backend(self, loc: Loc, backend: InlineBackend) -> None:
        plugin = self.plugin("backends", backend.type, (*loc, "type"))
        if plugin is None:
            return
        try:
            model = config_model(backend.type)
            parsed = model.model_validate(backend.config)
            if not plugin.is_builtin:
                build_backend(backend.type, parsed, self._context)
        except ValidationError as error:
            self.problems += plain_words(error, backend.config, model, (*loc, "config"))
        except InputError as error:
            self.problems.append(ConfigProblem((*loc, "type"), str(error), error))
            return
        self.sampling((*loc, "config", "default_params"), backend.config.get("default_params"))
        if "config" not in plugin.info:
            return
        name = backend.backend_id if isinstance(backend, BackendEntry) else path_text(loc)
        names = _names_of(model)
        for key in (key for key in backend.config if key not in names):
            # Undeclared keys are passed on to the model, so a typo is possible but not an error.
            near = nearest(key, names, cutoff=0.85)
            if near is not None or model.SENDS_UNDECLARED:
                hint = "" if near is None else f" Did you mean '{near}'?"
                self.warnings.append(
                    f"{path_text((*loc, 'config', key))}: '{name}' passes '{key}' on to the model as it is.{hint}"
                )

    def verdict_parser(self, loc: Loc, entry: JsonValue) -> None:
        with self._reported(loc):
            read_parser(entry)

    def tools(self, loc: Loc, adapter: RoleAdapterConfig) -> None:
        servers = [McpServer(names=server.names) for server in adapter.mcp_servers]
        with self._reported(loc):
            tools_of(adapter.tools, servers=servers)

    def sampling(self, loc: Loc, params: Any) -> None:
        for name, words in wrong_parameters(params) if isinstance(params, dict) else ():
            self.problems.append(ConfigProblem((*loc, name), f"must be {words}, not {describe(params[name])}."))

    def _origin(self, loc: Loc, dataset: DatasetConfig, name: str) -> None:
        try:
            origin = load_origin(name, self._context.base_dir)
        except InputError as error:
            self.problems.append(ConfigProblem((*loc, "origin"), str(error)))
            return
        for key, patterns in origin_patterns(dataset.params).items():
            with self._reported((*loc, key)):
                origin_paths(origin, patterns)
        if dataset.params.path is None:
            self.problems.append(ConfigProblem(loc, f"an 'origin' needs 'path', the files of '{name}' to read."))

    def _loader_params(self, loc: Loc, dataset: DatasetConfig, loader: registry.Plugin[Any]) -> None:
        declared = list(type(dataset.params).model_fields)
        own = loader.info.get("params")
        if own is not None:
            self._hub(loc[:-1], dataset, own)
        for key in dataset.params.model_extra or {}:
            if own is not None and key not in own:
                known = [*own, *declared]
                self.problems.append(
                    ConfigProblem(
                        (*loc, key),
                        f"loader '{without_folders(dataset.loader)}' has no parameter '{key}'.{closest(key, known)}",
                    )
                )
            elif own is None and (near := nearest(key, declared, cutoff=0.85)) is not None:
                self.problems.append(ConfigProblem((*loc, key), f"unknown key '{key}'. Did you mean '{near}'?"))

    def _hub(self, loc: Loc, dataset: DatasetConfig, known: Sequence[str]) -> None:
        if dataset.hub is not None and "hub" not in known:
            name = without_folders(dataset.loader)
            message = f"loader '{name}' reads no hub; remove 'loader' (hf_hub is the one) or 'hub'."
            self.problems.append(ConfigProblem((*loc, "hub"), message))
        for key in dataset.hub_params:
            if key not in known:
                message = f"loader '{without_folders(dataset.loader)}' has no parameter '{key}'.{closest(key, known)}"
                self.problems.append(ConfigProblem((*loc, "hub_params", key), message))

    def _arguments(self, loc: Loc, arguments: Mapping[str, Any], plugin: registry.Plugin[Any]) -> None:
        from gage_eval.data.standardize.compose import build, parameters_of

        try:
            parameters = parameters_of(plugin)
        except InputError as error:
            self.problems.append(ConfigProblem((*loc[:-1], "preprocess"), str(error), error))
            return
        if parameters is None:
            # A callable without declared parameters checks its arguments itself.
            return
        named = {p.name: p for p in parameters if p.kind is not p.VAR_KEYWORD and p.kind is not p.VAR_POSITIONAL}
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        before = len(self.problems)
        for key, value in arguments.items():
            if key in named:
                self._argument((*loc, key), value, plugin, key)
            elif not takes_all:
                self.problems.append(ConfigProblem((*loc, key), _no_parameter(plugin.name, key, named)))
        for key, parameter in named.items():
            if parameter.default is parameter.empty and key not in arguments:
                self.problems.append(ConfigProblem(loc, f"{plugin.name} needs '{key}'."))
        if len(self.problems) == before:
            # It refuses arguments that contradict each other or cannot work.
            with self._reported(loc):
                build(plugin, arguments)

    def _argument(self, loc: Loc, value: Any, plugin: registry.Plugin[Any], key: str) -> None:
        try:
            hint = typing.get_type_hints(plugin.obj).get(key, Any)
            TypeAdapter(hint).validate_python(value, strict=True)
        except ValidationError as error:
            problems = plain_words(error, value, BaseModel)
            self.problems.append(ConfigProblem(loc, problems[0].message))
        except Exception:  # noqa: BLE001 - annotations are the plug-in's code
            # Pydantic has no schema for this type, or only type checkers import it: the plug-in checks the value
            # itself.
            return


def _names_of(model: type[BaseModel]) -> list[str]:
    return [name for names in spellings_of(model) for name in names]


def _no_parameter(plugin: str, key: str, named: Mapping[str, inspect.Parameter]) -> str:
    takes = ", ".join(
        name if parameter.default is parameter.empty else f"{name} ({_default(parameter.default)})"
        for name, parameter in named.items()
    )
    return f"{plugin} has no parameter '{key}'. It takes: {takes or 'none'}.{closest(key, named)}"


def _default(value: Any) -> str:
    return "none" if value is None else str(value)
