"""From the type and config of a backend to the backend."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gage_eval import registry
from gage_eval.backends.base import Backend, BackendConfig, BackendContext
from gage_eval.backends.guarded import GuardedBackend
from gage_eval.errors import InputError
from gage_eval.foreign import PluginError, told, without_folders


def parse_config(type_: str, config: Mapping[str, Any]) -> BackendConfig:
    """The checked config of a backend.

    Raises:
        InputError: there is no such backend, or its config is wrong; the message names each field.
    """
    model = config_model(type_)
    try:
        return model.model_validate(dict(config))
    except ValidationError as error:
        raise InputError(f"backend '{without_folders(type_)}': {_problems(error)}") from None


def config_model(type_: str) -> type[BackendConfig]:
    """The fields that a backend's config may hold.

    Raises:
        InputError: there is no such backend, or it was registered with something else.
    """
    plugin = registry.backends.get(type_)
    model = plugin.info.get("config", BackendConfig)
    if not (isinstance(model, type) and issubclass(model, BackendConfig)):
        raise PluginError(f"backend {plugin.place}: config={model!r} is no subclass of BackendConfig.")
    return model


def build_backend(type_: str, config: Mapping[str, Any] | BackendConfig, context: BackendContext) -> Backend:
    """A backend that is not open yet; enough for its identity and its request bodies.

    Raises:
        InputError: there is no such backend, or its config is wrong; the message names each field.
    """
    parsed = config if isinstance(config, BackendConfig) else parse_config(type_, config)
    plugin = registry.backends.get(type_)
    if plugin.is_builtin:
        backend: Backend = plugin.obj(parsed, context)
        return backend
    with told(f"{plugin.place}()"):
        made = plugin.obj(parsed, context)
    registry.backends.protocol.check_made("backend", plugin.place, made)
    return GuardedBackend(made, plugin.place)


def _problems(error: ValidationError) -> str:
    """One line for all fields that are wrong; values are left out, they may be secrets."""
    lines = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{place}: {message}" if place else message)
    return "; ".join(lines) + "."
