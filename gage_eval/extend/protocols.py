"""The protocol of each kind of plug-in, checked before any of its code is called."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gage_eval.extend.loading import PluginError, plugin_errors


@dataclass(frozen=True)
class Method:
    """A method of a plug-in, and the number of arguments it is called with."""

    arguments: int = 0
    coroutine: bool = False


@dataclass(frozen=True)
class PluginProtocol:
    """What a plug-in of a kind must provide.

    Attributes:
        words: what it is, as messages say it.
        page: the page of the documentation that has an example.
        arguments: what it is called with by position; None when the config's own arguments are all.
        is_class: whether it may be a class.
        is_factory: whether it is called while a config is checked, to make what does the work.
        methods: of what it gives when it is called.
        attributes: names of required attributes.
        base: the class that has all of them already.
    """

    words: str
    page: str
    arguments: tuple[str, ...] | None = None
    is_class: bool = True
    is_factory: bool = False
    methods: Mapping[str, Method] | None = None
    attributes: tuple[str, ...] = ()
    base: str | None = None

    def check(self, kind: str, location: str, obj: Any) -> None:
        """Check the function or class itself; nothing of it is called.

        Args:
            kind: in the singular.
            location: what messages call it, as ``rows.py:Rows``.

        Raises:
            PluginError: it is something else, or a method is missing.
        """
        if not callable(obj) or (inspect.isclass(obj) and not self.is_class):
            shape = "a class" if inspect.isclass(obj) else f"of type {type(obj).__name__}"
            raise self._error(f"{location} is {shape}, not {self.words}")
        if self.is_factory and _is_of_python(obj):
            raise self._error(f"{location} belongs to Python's standard library and is not a {kind}")
        if inspect.isclass(obj):
            self._check_methods(kind, location, obj, bound=False)
            if missing := sorted(getattr(obj, "__abstractmethods__", ())):
                raise self._error(f"{kind} {location} lacks {_listed(missing)}", base=True)
        if self.arguments is not None and (why := refuses(obj, len(self.arguments))):
            raise self._error(f"{kind} {location} must take ({', '.join(self.arguments)}): {why}")

    def check_made(self, kind: str, location: str, made: Any) -> None:
        """Check the object that a plug-in returned.

        Raises:
            PluginError: a method or an attribute is missing.
        """
        self._check_methods(kind, location, made, bound=True)
        with plugin_errors(f"{kind} {location}"):
            missing = [name for name in self.attributes if not hasattr(made, name)]
        if missing:
            raise self._error(f"{kind} {location} lacks {', '.join(missing)}", base=True)

    def _check_methods(self, kind: str, location: str, owner: Any, *, bound: bool) -> None:
        methods = self.methods or {}
        with plugin_errors(f"{kind} {location}"):
            attributes = {name: inspect.getattr_static(owner, name, None) and getattr(owner, name) for name in methods}
        if missing := [f"{name}()" for name in methods if not callable(attributes[name])]:
            raise self._error(f"{kind} {location} lacks {_listed(missing)}", base=True)
        for name, method in methods.items():
            static = inspect.getattr_static(owner, name)
            has_self = not bound and not isinstance(static, staticmethod | classmethod)
            if why := refuses(attributes[name], method.arguments + has_self):
                count = f"{method.arguments or 'no'} argument{'s' if method.arguments != 1 else ''}"
                raise self._error(f"{location}.{name}() must take {count}: {why}")
            if method.coroutine and not inspect.iscoroutinefunction(attributes[name]):
                raise self._error(f"{location}.{name}() must be a coroutine: write 'async def {name}'")

    def _error(self, sentence: str, *, base: bool = False) -> PluginError:
        derive = f"; derive it from {self.base}" if base and self.base else ""
        return PluginError(f"{sentence}{derive} (docs/plugins/{self.page}).")


def _is_of_python(obj: Any) -> bool:
    """Whether something is of the standard library, where no plug-in is, and much that harms when it is called."""
    while isinstance(obj, functools.partial):
        obj = obj.func
    module = getattr(obj, "__module__", None) or type(obj).__module__
    return str(module).partition(".")[0] in sys.stdlib_module_names


def refuses(function: Callable[..., Any], count: int) -> str | None:
    """Why a function cannot take this number of positional arguments; None if it can, or if this is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter for parameter in parameters if parameter.kind in by_position]
    required = [parameter.name for parameter in positional if parameter.default is parameter.empty]
    if len(required) > count:
        return f"it also needs {', '.join(required[count:])}"
    if len(positional) < count and not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return f"it takes {', '.join(parameter.name for parameter in positional) or 'nothing'}"
    return None


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


LOADER = PluginProtocol(
    "a class with the methods identity() and records()",
    "loader.md",
    ("params", "base_dir"),
    is_factory=True,
    methods={"identity": Method(), "records": Method()},
)
PREPROCESSOR = PluginProtocol(
    "a function of a record, or a class with to_sample(record)",
    "preprocessor.md",
    is_factory=True,
    methods={"to_sample": Method(1)},
)
BACKEND = PluginProtocol(
    "a class with the coroutine call(request, body)",
    "backend.md",
    ("config", "context"),
    is_factory=True,
    methods={
        "identity": Method(),
        "body": Method(1),
        "open": Method(1, coroutine=True),
        "call": Method(2, coroutine=True),
        "close": Method(coroutine=True),
    },
    attributes=("type", "capabilities", "limiter", "lookup_field"),
    base="gage_eval.plugins.BaseBackend",
)
METRIC = PluginProtocol("a function of what it compares, or a class with the method score()", "metric.md")
FILTER = PluginProtocol("a function of a text", "filter.md", ("text",), is_class=False)
AGGREGATION = PluginProtocol("a function of the rows", "aggregation.md", ("rows",), is_class=False)
VERDICT_PARSER = PluginProtocol("a function of a judge's text", "verdict-parser.md", ("text",), is_class=False)
TOOL = PluginProtocol("a function, or a class made from a sample whose methods are the tools", "tool.md")
