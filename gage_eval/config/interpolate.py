"""``${VAR}`` and ``${VAR:-default}`` in the values of a config.

Only values are replaced, never keys. The inserted text is data: it is not parsed as YAML and not expanded
again. A value that is one unquoted placeholder gets the type of its text (``${N:-5}`` is the number 5). In
quotes or with other text it stays text. ``$${`` is a literal ``${``. A default is used if the variable is
unset or empty.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gage_eval.base.errors import is_unicode
from gage_eval.config.problems import ConfigProblem, Loc
from gage_eval.config.yaml import lines as yaml_lines

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|\$\{")
_BODY = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?\Z", re.DOTALL)


@dataclass
class FilledTree:
    """A tree as plain values with placeholders replaced.

    Attributes:
        value: dicts, lists and scalars.
        lines: the line of every location.
        sources: the file of every place.
        variables: names of the variables that were used, by location.
        problems: variables that are not set, and invalid placeholders.
    """

    value: Any = None
    lines: dict[Loc, int] = field(default_factory=dict)
    sources: dict[Loc, str] = field(default_factory=dict)
    variables: dict[Loc, list[str]] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)

    def line(self, loc: Loc) -> int | None:
        """The line of a location, or of the nearest location around it."""
        for end in range(len(loc), -1, -1):
            if loc[:end] in self.lines:
                return self.lines[loc[:end]] if end else None
        return None


def fill(node: yaml_lines.Node, env: Mapping[str, str] | None) -> FilledTree:
    """The values of a tree with placeholders replaced from ``env``. Problems are collected, not raised.

    Without ``env`` placeholders stay as they are written.
    """
    out = FilledTree()
    out.value = _fill(node, (), node.line, env, out)
    return out


def _fill(node: yaml_lines.Node, loc: Loc, line: int, env: Mapping[str, str] | None, out: FilledTree) -> Any:
    out.lines[loc] = line
    out.sources[loc] = node.source
    if isinstance(node, yaml_lines.Mapping):
        return {key: _fill(item, (*loc, key), node.lines[key], env, out) for key, item in node.items.items()}
    if isinstance(node, yaml_lines.Listing):
        return [_fill(item, (*loc, index), item.line, env, out) for index, item in enumerate(node.items)]
    if env is None or "${" not in node.text:
        return yaml_lines.value_of(node.text) if node.plain else node.text
    return _fill_text(node, loc, env, out)


def _fill_text(node: yaml_lines.Scalar, loc: Loc, env: Mapping[str, str], out: FilledTree) -> Any:
    names: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        body = _BODY.match(match["body"] or "")
        if body is None:
            out.problems.append(ConfigProblem(loc, _UNREADABLE.format(match[0])))
            return match[0]
        name, default = body["name"], body["default"]
        names.append(name)
        value = env.get(name)
        if not value and default is not None:
            return str(default)
        if value is None:
            out.problems.append(
                ConfigProblem(loc, f"{name} is not set; set it, or write a default: ${{{name}:-value}}.")
            )
            return ""
        if not is_unicode(value):
            out.problems.append(ConfigProblem(loc, f"{name} holds bytes that are not UTF-8; set it to text."))
            return match[0]
        return value

    text = _PLACEHOLDER.sub(replacement, node.text)
    if names:
        out.variables[loc] = names
    whole = _PLACEHOLDER.fullmatch(node.text)
    return yaml_lines.value_of(text) if node.plain and whole and names else text


_UNREADABLE = "cannot read '{}': write ${{NAME}} or ${{NAME:-default}}, and $${{ for a literal ${{."


def literal(value: Any) -> Any:
    """The values of another tool's file as values of a config: nothing in them is a placeholder."""
    if isinstance(value, dict):
        return {name: literal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [literal(item) for item in value]
    return value.replace("${", "$${") if isinstance(value, str) else value
