"""One registry for every kind of plug-in: loaders, preprocessors, backends, metrics, filters, verdict parsers.

Built-ins register with a decorator. `built_in` says which module holds a name; it is imported when the name is asked
for. Other distributions add theirs by entry points of the group ``gage_eval.<kind>``, imported in the same way. A name
may also be ``pkg.mod:attr``, ``pkg.mod.attr`` or ``path/file.py:attr``.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from typing import Any, Generic, TypeVar

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest
from gage_eval.extend import protocols
from gage_eval.extend.allowed_code import check_distribution
from gage_eval.extend.built_in import modules_of
from gage_eval.extend.extras import missing, program_version
from gage_eval.extend.loading import (
    about_to_import,
    check_allowed,
    is_in_file,
    is_path,
    load_object,
    location_of,
    once,
    origin_of_module,
    plugin_errors,
    version_of,
    without_folders,
)
from gage_eval.extend.protocols import PluginProtocol

T = TypeVar("T")

# More names than this do not help in a sentence.
_FEW = 20


@dataclass(frozen=True)
class Plugin(Generic[T]):
    """One registered object.

    Attributes:
        kind: ``metrics``, ``backends``, …
        name: the name used in configs.
        obj: the function or class.
        version: raised by its author whenever its results change; part of every key it takes part in.
        summary: one line for listings.
        origin: ``builtin``, a distribution as ``name==version``, or a sha256 of the plug-in's files.
        info: what a kind declares beyond that (value key, default aggregate, config model, …).
    """

    kind: str
    name: str
    obj: T
    version: int
    summary: str
    origin: str = "builtin"
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def singular(self) -> str:
        """The singular of the kind, for messages."""
        return _singular(self.kind)

    @property
    def is_builtin(self) -> bool:
        """Whether the plug-in is built in. Others may break their promises."""
        return self.origin == "builtin"

    @property
    def location(self) -> str:
        """Its name in messages: file and name, as ``rows.py:Rows``."""
        return location_of(self.obj, self.name)

    def identity(self) -> JsonValue:
        """The part of keys that stands for this plug-in's code and for the libraries that determine its results.

        Raises:
            InputError: one of those is not installed.
        """
        known: dict[str, JsonValue] = {"name": self.name, "version": self.version}
        if not self.is_builtin:
            known["origin"] = self.origin
        libraries = self.libraries()
        if libraries:
            known["libraries"] = dict(libraries)
        return known

    def libraries(self) -> dict[str, str]:
        """The installed versions of what ``info["libraries"]`` and ``info["programs"]`` declare, by name.

        Raises:
            InputError: one of them is not installed.
        """
        what = f"{self.singular} {self.name}"
        programs = self.info.get("programs", {}).items()
        return {name: self._version_of(name) for name in self.info.get("libraries", ())} | {
            name: program_version(what, name, package) for name, package in programs
        }

    def _version_of(self, library: str) -> str:
        try:
            return metadata.version(library)
        except metadata.PackageNotFoundError:
            raise missing(f"{self.singular} {self.name}", library, "metrics") from None


class Registry(Generic[T]):
    """All plug-ins of one kind; each is imported when its name is first asked for."""

    def __init__(self, kind: str, protocol: PluginProtocol) -> None:
        self.kind = kind
        self.protocol = protocol
        self._built_in = modules_of(kind)
        self._plugins: dict[str, Plugin[T]] = {}
        # Those in files whose name another file has taken since.
        self._of_files: list[Plugin[T]] = []

    def register(self, name: str, *, version: int = 1, **info: Any) -> Callable[[T], T]:
        """Decorator: the object is known as ``name`` from here on.

        Raises:
            ValueError: another object of this kind has that name.
            PluginError: it is not a plug-in of this kind.
        """

        def decorate(obj: T) -> T:
            module = getattr(obj, "__module__", None) or ""
            builtin = module.split(".")[0] == "gage_eval"
            known = self._plugins.get(name) if builtin else self.loaded(name)
            # Configs name plug-ins in files by their path: files of several configs may register the same name.
            in_files = known is not None and is_in_file(known.obj) and is_in_file(obj)
            if known is not None and not in_files and _where(known.obj) != _where(obj):
                raise ValueError(f"{self.kind}: two plug-ins are named '{name}': {_where(known.obj)} and {_where(obj)}")
            origin = "builtin" if builtin else origin_of_module(module)
            plugin = self._checked(Plugin(self.kind, name, obj, version, _summary(obj), origin, dict(info)))
            if known is not None and _where(known.obj) != _where(obj):
                self._of_files.append(known)
            self._plugins[name] = plugin
            return obj

        return decorate

    def get(self, name: str) -> Plugin[T]:
        """The plug-in of that name, class path or file.

        Raises:
            InputError: there is none, the message lists what is there and the closest name; or its code cannot be
                loaded, or is not a plug-in of this kind.
        """
        plugin = self.loaded(name)
        if plugin is not None:
            if not plugin.is_builtin:
                check_allowed(name)
            return plugin
        if name in self._entry_points:
            check_allowed(name)
            point = self._entry_points[name]
            check_distribution(name, None if point.dist is None else point.dist.name)
            return self._installed(name, point)
        if is_path(name):
            return self._by_path(name)
        known = self.names()
        shown = f"Known: {', '.join(known)}" if len(known) <= _FEW else f"gage list {self.kind} shows all {len(known)}"
        raise InputError(f"no {self.singular} '{name}'. {shown}.{closest(name, known)}")

    def origin(self, name: str) -> str | None:
        """Where the code of that name is, without importing it: ``builtin``, a distribution's, or as the name says.

        None when there is none.
        """
        if name in self._built_in:
            return "builtin"
        if name in self._plugins:
            return self._plugins[name].origin
        if name in self._entry_points:
            point = self._entry_points[name]
            return point.value if point.dist is None else f"{point.value} of {point.dist.name} {point.dist.version}"
        return name if is_path(name) else None

    def loaded(self, name: str) -> Plugin[T] | None:
        """The plug-in of that name when it is built in, or was used before: nothing installed is searched for it."""
        if name not in self._plugins and name in self._built_in:
            importlib.import_module(self._built_in[name])
        return self._plugins.get(name)

    def of(self, obj: Any) -> Plugin[T] | None:
        """The plug-in that was registered for a function or class; None for one that only a path names."""
        registered = (*self._plugins.values(), *reversed(self._of_files))
        return next((plugin for plugin in registered if plugin.obj is obj), None)

    def names(self) -> list[str]:
        """All known names, sorted; nothing is imported for them."""
        return sorted({*self._built_in, *self._plugins, *self._entry_points})

    def __iter__(self) -> Iterator[Plugin[T]]:
        for name in self.names():
            yield self.get(name)

    @property
    def singular(self) -> str:
        return _singular(self.kind)

    @cached_property
    def _entry_points(self) -> dict[str, metadata.EntryPoint]:
        return {point.name: point for point in metadata.entry_points(group=f"gage_eval.{self.kind}")}

    def _installed(self, name: str, point: metadata.EntryPoint) -> Plugin[T]:
        about_to_import()
        with plugin_errors(f"cannot load {self.singular} '{name}': {point.value}"):
            loaded = once(point.value, point.load)
            if name not in self._plugins:
                self.register(name)(loaded)
        return self._plugins[name]

    def _by_path(self, name: str) -> Plugin[T]:
        obj, origin = load_object(name)
        known = self.of(obj)
        if known is not None:
            return known
        shown = without_folders(name)
        version = version_of(obj, f"{self.singular} {shown}")
        return self._checked(Plugin(self.kind, shown, obj, version, _summary(obj), origin))

    def _checked(self, plugin: Plugin[T]) -> Plugin[T]:
        if not plugin.is_builtin:
            self.protocol.check(self.singular, plugin.location, plugin.obj)
        return plugin


def _summary(obj: Any) -> str:
    return next(iter((getattr(obj, "__doc__", None) or "").strip().splitlines()), "")


def _singular(kind: str) -> str:
    return kind.removesuffix("s").replace("_", " ")


def _where(obj: Any) -> str:
    return f"{getattr(obj, '__module__', '?')}.{getattr(obj, '__qualname__', repr(obj))}"


loaders: Registry[Any] = Registry("loaders", protocols.LOADER)
preprocessors: Registry[Any] = Registry("preprocessors", protocols.PREPROCESSOR)
backends: Registry[Any] = Registry("backends", protocols.BACKEND)
metrics: Registry[Any] = Registry("metrics", protocols.METRIC)
filters: Registry[Any] = Registry("filters", protocols.FILTER)
verdict_parsers: Registry[Any] = Registry("verdict_parsers", protocols.VERDICT_PARSER)
aggregations: Registry[Any] = Registry("aggregations", protocols.AGGREGATION)
tools: Registry[Any] = Registry("tools", protocols.TOOL)

ALL: dict[str, Registry[Any]] = {
    registry.kind: registry
    for registry in (loaders, preprocessors, backends, metrics, filters, verdict_parsers, aggregations, tools)
}
