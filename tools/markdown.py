"""Markdown helpers for the generated pages."""

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from gage_eval.extend import registry
from gage_eval.extend.registry import Plugin

_CODE = re.compile(r"``([^`]+)``")


def builtin(kind: registry.Registry[Any]) -> Iterator[Plugin[Any]]:
    return (plugin for plugin in kind if plugin.origin == "builtin")


def text(obj: Any) -> str:
    """A docstring as Markdown, without its Args section."""
    text = inspect.getdoc(obj) or ""
    return prose(re.split(r"\n\n?(?:Args|Returns|Raises|Attributes):\n", text)[0].strip())


def prose(text: str) -> str:
    return _CODE.sub(r"`\1`", text)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(list(value) if isinstance(value, tuple) else value)


def type_name(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Annotated:
        return type_name(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(str(value) for value in typing.get_args(annotation))
    if annotation is type(None):
        return "none"
    if typing.get_origin(annotation) in (Mapping, dict):
        return "mapping"
    arguments = [type_name(item) for item in typing.get_args(annotation) if item is not Ellipsis]
    if not arguments:
        return _TYPES.get(annotation, getattr(annotation, "__name__", str(annotation)))
    return " or ".join(arguments) if _is_union(annotation) else f"list of {arguments[0]}"


_TYPES: dict[Any, str] = {str: "text", float: "number", int: "integer", bool: "true or false", Any: "any"}


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) is typing.Union or type(annotation).__name__ == "UnionType"
