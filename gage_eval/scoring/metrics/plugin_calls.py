"""A plug-in and its parameters as one entry of a config: ``name``, or ``{name: {parameters}}``."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.extend.registry import Plugin, Registry
from gage_eval.scoring.metrics.base import signature_of
from gage_eval.scoring.metrics.guarded import guarded


@runtime_checkable
class HasIdentity(Protocol):
    """A parameter that was parsed into an object."""

    def identity(self) -> JsonValue:
        """Its part of keys."""


@dataclass(frozen=True)
class PluginCall(ABC):
    """A filter or verdict parser with its parameters, defaults included."""

    plugin: Plugin[Any]
    params: Mapping[str, Any]

    @cached_property
    def function(self) -> Callable[..., Any]:
        plugin = self.plugin
        function: Callable[..., Any] = plugin.obj
        return function if plugin.is_builtin else guarded(function, f"{plugin.location}()", self.wrong)

    @abstractmethod
    def wrong(self, result: Any) -> str | None:
        """What is wrong with the plug-in's result; None when nothing is."""

    def identity(self) -> dict[str, JsonValue]:
        """Its part of keys: the plug-in's code and its parameters."""
        params = {name: plain(value) for name, value in self.params.items()}
        return {self.plugin.singular: self.plugin.identity(), "params": params}


C = TypeVar("C", bound=PluginCall)


def read_call(call: type[C], plugins: Registry[Any], entry: JsonValue) -> C:
    """Read the plug-in that an entry of a config names.

    Args:
        call: the kind of call to make.
        plugins: the registry of the kind.
        entry: a name, or ``{name: {parameters}}``.

    Raises:
        InputError: the entry has another form, the plug-in does not exist, or a parameter does not fit.
    """
    kind = plugins.singular
    params: JsonValue = {}
    if isinstance(entry, str):
        name = entry
    elif isinstance(entry, Mapping) and len(entry) == 1:
        ((name, params),) = entry.items()
        params = params or {}
    else:
        raise InputError(f"{kind} {entry!r} is neither a name nor {{name: {{parameters}}}}.")
    if not isinstance(params, Mapping):
        raise InputError(f"{kind} {name}: its parameters are {params!r}, not a mapping.")
    plugin = plugins.get(str(name))
    return call(plugin, signature_of(plugin).validate(params))


def plain(value: Any) -> JsonValue:
    """A parameter in its form for keys: a compiled pattern becomes its text."""
    if isinstance(value, HasIdentity):
        return value.identity()
    return value.pattern if isinstance(value, re.Pattern) else value
