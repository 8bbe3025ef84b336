"""One registry for every kind of plug-in: loaders, preprocessors, backends, metrics, filters, verdict parsers.

Built-ins register with a decorator when their package is first asked for; those modules import nothing
heavy. Other distributions add theirs by entry points of the group ``gage_eval.<kind>``; one is imported
when its name is asked for. A name may also be ``pkg.mod:attr``, ``pkg.mod.attr`` or ``path/file.py:attr``.
"""

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

from gage_eval.canonical import JsonValue, digest, sha256_hex
from gage_eval.errors import InputError, closest

T = TypeVar("T")

# More names than these are no help in a sentence.
_FEW = 20

# Each is called once, before code of others is imported for the first time.
before_foreign_code: list[Callable[[], None]] = []


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
        """What one of its kind is called in messages."""
        return _singular(self.kind)

    def identity(self) -> JsonValue:
        """What goes into keys for this plug-in's code, and for the libraries that determine its results.

        Raises:
            InputError: one of those is not installed.
        """
        known: dict[str, JsonValue] = {"name": self.name, "version": self.version}
        if self.origin != "builtin":
            known["origin"] = self.origin
        libraries = self.libraries()
        if libraries:
            known["libraries"] = dict(libraries)
        return known

    def libraries(self) -> dict[str, str]:
        """The installed versions of the distributions that ``info["libraries"]`` declares, by name.

        Raises:
            InputError: one of them is not installed.
        """
        return {name: self._version_of(name) for name in self.info.get("libraries", ())}

    def _version_of(self, library: str) -> str:
        try:
            return metadata.version(library)
        except metadata.PackageNotFoundError:
            raise InputError(
                f"{self.singular} {self.name} needs {library}, which is not installed: "
                "pip install 'gage-eval[metrics]'."
            ) from None


class Registry(Generic[T]):
    """All plug-ins of one kind, filled on first use."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._plugins: dict[str, Plugin[T]] = {}
        self._filled = False

    def register(self, name: str, *, version: int = 1, **info: Any) -> Callable[[T], T]:
        """Decorator: the object is known as ``name`` from here on.

        Raises:
            ValueError: another object of this kind has that name.
        """

        def decorate(obj: T) -> T:
            known = self._plugins.get(name)
            if known is not None and _where(known.obj) != _where(obj):
                raise ValueError(f"{self.kind}: two plug-ins are named '{name}': {_where(known.obj)} and {_where(obj)}")
            summary = (getattr(obj, "__doc__", None) or "").strip().splitlines()[:1]
            module = getattr(obj, "__module__", "")
            origin = "builtin" if module.split(".")[0] == "gage_eval" else _origin_of_module(module)
            self._plugins[name] = Plugin(
                self.kind, name, obj, version, summary[0] if summary else "", origin, dict(info)
            )
            return obj

        return decorate

    def get(self, name: str) -> Plugin[T]:
        """The plug-in of that name, class path or file.

        Raises:
            InputError: there is none; the message lists what is there and the closest name.
        """
        self._fill()
        if name in self._plugins:
            return self._plugins[name]
        if name in self._entry_points:
            _about_to_import()
            loaded = self._entry_points[name].load()
            if name not in self._plugins:
                self.register(name)(loaded)
            return self._plugins[name]
        if ":" in name or ("." in name and not name.startswith(".")):
            return self._by_path(name)
        known = self.names()
        shown = f"Known: {', '.join(known)}" if len(known) <= _FEW else f"gage list {self.kind} shows all {len(known)}"
        raise InputError(f"no {self.singular} '{name}'. {shown}.{closest(name, known)}")

    def loaded(self, name: str) -> Plugin[T] | None:
        """The plug-in of that name when it is built in, or was used before: nothing installed is searched for it."""
        self._fill()
        return self._plugins.get(name)

    def names(self) -> list[str]:
        """All known names, sorted; entry points are listed without importing them."""
        self._fill()
        return sorted({*self._plugins, *self._entry_points})

    def __iter__(self) -> Iterator[Plugin[T]]:
        for name in self.names():
            yield self.get(name)

    @property
    def singular(self) -> str:
        return _singular(self.kind)

    @cached_property
    def _entry_points(self) -> dict[str, metadata.EntryPoint]:
        return {point.name: point for point in metadata.entry_points(group=f"gage_eval.{self.kind}")}

    def _fill(self) -> None:
        if self._filled:
            return
        self._filled = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__, self._package + "."):
            importlib.import_module(module.name)

    def _by_path(self, name: str) -> Plugin[T]:
        obj, origin = load_object(name)
        known = next((plugin for plugin in self._plugins.values() if plugin.obj is obj), None)
        if known is not None:
            return known
        summary = (getattr(obj, "__doc__", None) or "").strip().splitlines()[:1]
        return Plugin(
            self.kind,
            _without_folders(name),
            obj,
            int(getattr(obj, "version", 1)),
            summary[0] if summary else "",
            origin,
        )


def load_object(path: str) -> tuple[Any, str]:
    """The object at ``pkg.mod:attr``, ``pkg.mod.attr`` or ``dir/file.py:attr``, and its code's identity.

    Raises:
        InputError: the module, file or attribute is not there.
    """
    module_name, _, attribute = path.rpartition(":")
    if not module_name:
        module_name, _, attribute = path.rpartition(".")
    _about_to_import()
    if module_name.endswith(".py"):
        file = Path(module_name)
        if not file.is_file():
            raise InputError(f"no file '{module_name}' for plug-in '{path}'.")
        spec = importlib.util.spec_from_file_location(f"gage_eval_plugin_{digest(str(file.resolve()))[:12]}", file)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        # Known by name while it runs: dataclasses look their module up, and so does the origin of what it registers.
        sys.modules[module.__name__] = module
        try:
            # Compiled here: Python's own cache takes an edit of the same second and size for the old file.
            exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)  # noqa: S102  # a plug-in the user names
        except BaseException:
            del sys.modules[module.__name__]
            raise
    else:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            raise InputError(f"cannot import '{module_name}' for plug-in '{path}': {error}.") from error
    try:
        return getattr(module, attribute), _origin_of_module(module.__name__)
    except AttributeError:
        names = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(f"'{module_name}' has no '{attribute}'.{closest(attribute, names)}") from None


def _about_to_import() -> None:
    while before_foreign_code:
        before_foreign_code.pop()()


def _origin_of_module(module_name: str) -> str:
    """Distribution and version of a module's top-level package, else the hash of the package's files."""
    top = module_name.split(".")[0]
    owners = _distributions().get(top)
    if owners:
        return f"{owners[0]}=={metadata.version(owners[0])}"
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None)
    if file is None:
        return f"module:{top}"
    root = Path(file)
    files = sorted(root.parent.rglob("*.py")) if root.name == "__init__.py" else [root]
    return "sha256:" + digest([[str(f.relative_to(root.parent)), sha256_hex(f.read_bytes())] for f in files])


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Distributions by top-level package; asked once, it reads the records of all that is installed."""
    return metadata.packages_distributions()


def _without_folders(path: str) -> str:
    """The plug-in's name for keys and tables: a file counts by its content, wherever it lies."""
    module, colon, attribute = path.rpartition(":")
    return f"{Path(module).name}:{attribute}" if colon and module.endswith(".py") else path


def _singular(kind: str) -> str:
    return kind.removesuffix("s").replace("_", " ")


def _where(obj: Any) -> str:
    return f"{getattr(obj, '__module__', '?')}.{getattr(obj, '__qualname__', repr(obj))}"


loaders: Registry[Any] = Registry("loaders", "gage_eval.datasets")
preprocessors: Registry[Any] = Registry("preprocessors", "gage_eval.standardize")
backends: Registry[Any] = Registry("backends", "gage_eval.backends")
metrics: Registry[Any] = Registry("metrics", "gage_eval.metrics.builtin")
filters: Registry[Any] = Registry("filters", "gage_eval.metrics.filters")
verdict_parsers: Registry[Any] = Registry("verdict_parsers", "gage_eval.metrics.verdict_parsers")
aggregations: Registry[Any] = Registry("aggregations", "gage_eval.metrics.aggregations")

ALL: dict[str, Registry[Any]] = {
    registry.kind: registry
    for registry in (loaders, preprocessors, backends, metrics, filters, verdict_parsers, aggregations)
}
