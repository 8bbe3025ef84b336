"""Parse YAML into a tree with line numbers, from parse events only: tags never construct objects.

Scalars follow the core schema of YAML 1.2, which has fewer surprises than 1.1: ``no`` and ``1:30`` are
text, ``010`` is ten, ``1e-3`` is a number, a date is text. Keys are always text. Errors with a line are: duplicate
keys, several documents, unknown tags, and too many aliases or levels.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from gage_eval.base.errors import ConfigError, Problem, is_unicode

MAX_BYTES = 2**20
MAX_DEPTH = 64
MAX_NODES = 200_000
_TAG = "tag:yaml.org,2002:"

# Longer digit strings are text, because Python refuses to convert them.
_INT = re.compile(r"[-+]?[0-9]{1,100}\Z")
_OCTAL = re.compile(r"0o[0-7]{1,100}\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,100}\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

_QUESTION_MARK = "a '?' in a text inside '{…}' or '[…]'; put the text in quotes"
# The parser's messages → messages for the file's author.
_PLAIN_WORDS = (
    (
        "mapping values are not allowed",
        "a ': ' inside a value, or a key at the wrong indentation; quote or align it",
    ),
    ("'\\t' that cannot start any token", "a tab; YAML is indented with spaces"),
    ("could not find expected ':'", "a key without ': ' after it"),
    ("while scanning a quoted scalar", "a quoted text that is never closed"),
    ("found unexpected end of stream", "a quoted text that is never closed"),
    ("but got '?'", _QUESTION_MARK),
    ("while parsing a flow node expected the node content, but found '?'", _QUESTION_MARK),
    ("expected ',' or ']'", "a list '[…]' that is never closed, or lacks a comma"),
    ("expected ',' or '}'", "a mapping '{…}' that is never closed, or lacks a comma"),
    ("expected <block end>", "a line whose indentation fits neither the lines above nor the level below"),
    ("undefined alias", "an alias '*name' without an anchor '&name' before it"),
    ("unknown escape character", "an unknown escape in a double-quoted text; use single quotes"),
    ("cannot start any token", "a character that cannot start a value; quote the value"),
    ("special characters are not allowed", "a control character; remove it"),
)


@dataclass(frozen=True)
class Scalar:
    """One value as written. ``plain``: without quotes or block style, so that its text determines its type."""

    text: str
    plain: bool
    line: int
    source: str = ""


@dataclass(frozen=True)
class Listing:
    """A sequence."""

    items: list["Node"]
    line: int
    source: str = ""


@dataclass(frozen=True)
class Mapping:
    """A mapping. ``lines``: the line of each key. ``source``, here as everywhere: the file, as errors call it."""

    items: dict[str, "Node"]
    lines: dict[str, int]
    line: int
    source: str = ""


Node: TypeAlias = Scalar | Listing | Mapping


def parse(text: str, source: str) -> Node:
    """The tree of a YAML text.

    Args:
        text: the whole document. An empty document is an empty mapping.
        source: the file's name in errors.

    Raises:
        ConfigError: not YAML, or YAML features that are not allowed; the message has the line and the remedy.
    """
    try:
        return _Builder(text, source).document()
    except yaml.MarkedYAMLError as error:
        raise ConfigError(source, [_problem(error)]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(source, [Problem("", _words(str(error.reason)), line)]) from error
    except _Refused as refused:
        raise ConfigError(source, [Problem("", refused.message, refused.line)]) from refused
    except (ValueError, OverflowError) as error:
        # PyYAML passes an escape such as "\\U00110000" to chr() unchecked.
        raise ConfigError(source, [Problem("", f"not valid YAML: an escape beyond Unicode ({error}).")]) from error


def value_of(text: str) -> Any:
    """The value of an unquoted scalar: None, a boolean, a number, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text)
    if _OCTAL.match(text):
        return int(text[2:], 8)
    if _HEX.match(text):
        return int(text[2:], 16)
    if _FLOAT.match(text):
        number = float(text)
        # JSON cannot hold 1e999 as a number. As text, the type check of its field refuses it.
        return number if abs(number) != float("inf") else text
    return text


def as_written(node: Node) -> Any:
    """The plain values of a tree, with placeholders as written."""
    if isinstance(node, Mapping):
        return {key: as_written(item) for key, item in node.items.items()}
    if isinstance(node, Listing):
        return [as_written(item) for item in node.items]
    return value_of(node.text) if node.plain else node.text


_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep; write fewer."


class _Refused(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Builder:
    """Builds the tree from the parser's events. Counts every node and level, also each repetition by an alias."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.events: Iterator[Any] = yaml.parse(text, Loader=yaml.SafeLoader)
        # The tree of each anchor, its nodes and its levels.
        self.anchors: dict[str, tuple[Node, int, int]] = {}
        self.nodes = 0
        # The deepest level of the tree that is being built.
        self.deepest = 0

    def document(self) -> Node:
        next(self.events)
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            return Mapping({}, {}, 1, self.source)
        root = self.node(next(self.events), 0)
        next(self.events)
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise _Refused("a second document begins here; a file holds one.", _line(event))
        return root

    def node(self, event: Any, depth: int) -> Node:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event.anchor, depth, line)
        self.reach(depth, line)
        before, around = self.nodes, self.deepest
        self.count(1, line)
        self.deepest = depth
        made = self.fresh(event, depth, line)
        if event.anchor is not None:
            self.anchors[event.anchor] = (made, self.nodes - before, self.deepest - depth)
        self.deepest = max(self.deepest, around)
        return made

    def alias(self, anchor: str | None, depth: int, line: int) -> Node:
        if anchor is None or anchor not in self.anchors:
            raise _Refused(f"an alias '*{anchor}' without an anchor '&{anchor}' before it.", line)
        made, size, levels = self.anchors[anchor]
        self.reach(depth + levels, line)
        self.count(size, line)
        return made

    def reach(self, depth: int, line: int) -> None:
        if depth > MAX_DEPTH:
            raise _Refused(_TOO_DEEP, line)
        self.deepest = max(self.deepest, depth)

    def count(self, size: int, line: int) -> None:
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise _Refused(f"aliases and values add up to more than {MAX_NODES:,} nodes; write less.", line)

    def fresh(self, event: Any, depth: int, line: int) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event, line)
        if isinstance(event, yaml.SequenceStartEvent):
            _check_tag(event.tag, "seq", line)
            items = []
            while not isinstance(inner := next(self.events), yaml.SequenceEndEvent):
                items.append(self.node(inner, depth + 1))
            return Listing(items, line, self.source)
        _check_tag(event.tag, "map", line)
        return self.mapping(depth, line)

    def scalar(self, event: Any, line: int) -> Scalar:
        text = event.value
        if not is_unicode(text):
            # JSON writes a character beyond 16 bits as two escapes, each half of a surrogate pair.
            try:
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise _Refused("half a surrogate pair is not a character; write the character itself.", line) from None
        if event.tag in (None, "!"):
            return Scalar(text, event.implicit[0], line, self.source)
        _check_tag(event.tag, "str", line)
        return Scalar(text, False, line, self.source)  # noqa: FBT003

    def mapping(self, depth: int, line: int) -> Mapping:
        out = Mapping({}, {}, line, self.source)
        merged: list[Node] = []
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key_line = _line(event)
            key = self.node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise _Refused("a key must be text, not a list or a mapping.", key_line)
            value = self.node(next(self.events), depth + 1)
            if key.text == "<<" and key.plain:
                merged.extend(value.items if isinstance(value, Listing) else [value])
                continue
            if key.text in out.items:
                first = out.lines[key.text]
                raise _Refused(f"the key '{key.text}' is given twice, first on line {first}; keep one.", key_line)
            out.items[key.text] = value
            out.lines[key.text] = key_line
        for other in merged:
            if not isinstance(other, Mapping):
                raise _Refused("'<<' merges mappings only.", line)
            for name, value in other.items.items():
                if name not in out.items:
                    out.items[name] = value
                    out.lines[name] = other.lines[name]
        return out


def _check_tag(tag: str | None, allowed: str, line: int) -> None:
    if tag not in (None, "!", _TAG + allowed):
        shown = tag.replace(_TAG, "!!") if tag else ""
        raise _Refused(f"the tag '{shown}' is not allowed; remove it.", line)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    text = f"{error.context or ''} {error.problem or ''}"
    if mark is None:
        return Problem("", _words(text))
    return Problem("", f"{_words(text)} (column {mark.column + 1})", mark.line + 1)


def _words(text: str) -> str:
    for needle, words in _PLAIN_WORDS:
        if needle in text:
            return f"not valid YAML: {words}"
    return f"not valid YAML: {text.strip()}"
