"""YAML text of a config's tree, with comments."""

import io
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gage_eval.config.problems import Loc
from gage_eval.config.yaml import lines
from gage_eval.config.yaml.lines import Node

if TYPE_CHECKING:
    from ruamel.yaml import YAML


# Where comments at the ends of lines begin.
_COLUMN = 48


def yaml_text(
    node: Node, *, after: Mapping[Loc, str] | None = None, before: Mapping[Loc, str] | None = None, head: str = ""
) -> str:
    """A tree as YAML that reads back as the same tree.

    Args:
        node: a mapping.
        after: comments at the ends of lines, by the place of the value.
        before: comments of one or several lines above a key or item, by its place.
        head: text above everything, with its ``#``.
    """
    written = _Writer(dict(after or {}), dict(before or {}))
    out = io.StringIO()
    _yaml().dump(written.value(node, ()), out)
    return head + out.getvalue()


def _yaml() -> "YAML":
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 2**20
    yaml.allow_unicode = True
    yaml.representer.add_representer(
        type(None), lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml


class _Writer:
    def __init__(self, after: Mapping[Loc, str], before: Mapping[Loc, str]) -> None:
        self._after = after
        self._before = before

    def value(self, node: Node, loc: Loc) -> Any:
        from ruamel.yaml.comments import CommentedMap, CommentedSeq

        if isinstance(node, lines.Scalar):
            return _scalar(node)
        out: Any
        if isinstance(node, lines.Mapping):
            out = CommentedMap({_key(key): self.value(item, (*loc, key)) for key, item in node.items.items()})
            keys: Any = node.items
        else:
            out = CommentedSeq([self.value(item, (*loc, at)) for at, item in enumerate(node.items)])
            keys = range(len(node.items))
        if not out:
            out.fa.set_flow_style()
        for key in keys:
            place = (*loc, key)
            if (text := self._before.get(place)) is not None:
                out.yaml_set_comment_before_after_key(key, before=text, indent=_indent(place))
            if (text := self._after.get(place)) is not None:
                out.yaml_add_eol_comment(text, key, column=_COLUMN)
        return out


def _indent(place: Loc) -> int:
    """How far the key or item at a place is indented."""
    inside = sum(4 if isinstance(part, int) else 2 * isinstance(inner, str) for part, inner in pairwise(place))
    return inside + (2 if isinstance(place[-1], int) else 0)


def _key(text: str) -> str:
    """A key in quotes that keep its white space, where it has some that YAML would fold."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    return text if text.isprintable() else DoubleQuotedScalarString(text)


def _scalar(node: lines.Scalar) -> Any:
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString, PlainScalarString
    from ruamel.yaml.scalarstring import SingleQuotedScalarString as Quoted

    text = node.text
    if node.plain:
        value = lines.value_of(text)
        return PlainScalarString(text) if isinstance(value, str) else value
    if "\n" in text and all(c == "\n" or c.isprintable() for c in text):
        return LiteralScalarString(text)
    if not text.isprintable():
        return DoubleQuotedScalarString(text)
    return text if "${" not in text and isinstance(lines.value_of(text), str) else Quoted(text)
