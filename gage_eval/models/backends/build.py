"""Build a backend from its type and config."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gage_eval.base.canonical import digest
from gage_eval.base.errors import InputError
from gage_eval.extend import registry
from gage_eval.extend.allowed_code import check_engine
from gage_eval.extend.loading import PluginError, plugin_errors, without_folders
from gage_eval.models.backends.base import Backend, BackendConfig, BackendContext
from gage_eval.models.backends.guarded import GuardedBackend


def parse_config(type_: str, config: Mapping[str, Any]) -> BackendConfig:
    """The checked config of a backend.

    Raises:
        InputError: the backend does not exist, or its config is wrong; the message names each field.
    """
    model = config_model(type_)
    try:
        return model.model_validate(dict(config))
    except ValidationError as error:
        raise InputError(f"backend '{without_folders(type_)}': {_problems(error)}") from None


def config_model(type_: str) -> type[BackendConfig]:
    """The fields that a backend's config may hold.

    Raises:
        InputError: the backend does not exist, or it was registered with something else.
    """
    plugin = registry.backends.get(type_)
    model = plugin.info.get("config", BackendConfig)
    if not (isinstance(model, type) and issubclass(model, BackendConfig)):
        raise PluginError(f"backend {plugin.location}: config={model!r} is not a subclass of BackendConfig.")
    return model


def build_backend(type_: str, config: Mapping[str, Any] | BackendConfig, context: BackendContext) -> Backend:
    """A backend that is not open yet; enough for its identity and its request bodies.

    With a context that keeps what it built, the same config gets the same backend.

    Raises:
        InputError: the backend does not exist, or its config is wrong; the message names each field.
    """
    parsed = config if isinstance(config, BackendConfig) else parse_config(type_, config)
    if context.built is None:
        return _new(type_, parsed, context)
    key = _what(type_, parsed, context)
    known = context.built.get(key)
    # Two threads that build the same at once take one of the two.
    return known if known is not None else context.built.setdefault(key, _new(type_, parsed, context))


def forget_backend(type_: str, config: BackendConfig, context: BackendContext) -> None:
    """Make `build_backend` build this backend again."""
    if context.built is not None:
        context.built.pop(_what(type_, config, context), None)


def _what(type_: str, config: BackendConfig, context: BackendContext) -> str:
    place = context.placement
    return digest([type_, config.model_dump(mode="json"), place and place.work_pool])


def _new(type_: str, parsed: BackendConfig, context: BackendContext) -> Backend:
    plugin = registry.backends.get(type_)
    if plugin.is_builtin:
        check_engine(type_, parsed.model_dump())
        backend: Backend = plugin.obj(parsed, context)
        return backend
    with plugin_errors(f"{plugin.location}()"):
        made = plugin.obj(parsed, context)
    registry.backends.protocol.check_made("backend", plugin.location, made)
    return GuardedBackend(made, plugin.location)


def _problems(error: ValidationError) -> str:
    """One line for all fields that are wrong; values are left out, they may be secrets."""
    lines = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        location = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{location}: {message}" if location else message)
    return "; ".join(lines) + "."
