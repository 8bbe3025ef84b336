"""Trees of a YAML file as data: looked up, merged and made, each value with the file and line it came from."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gage_eval.base.canonical import encode, normalise
from gage_eval.config.problems import Loc
from gage_eval.config.yaml.lines import Listing, Mapping, Node, Scalar, as_written

# The sections whose items have names, with the field that holds the name.
NAMED_SECTIONS = {
    "datasets": "dataset_id",
    "backends": "backend_id",
    "role_adapters": "adapter_id",
    "prompts": "prompt_id",
    "metrics": "metric_id",
    "tasks": "task_id",
    "groups": "group_id",
}


def child(node: Node | None, key: str | int) -> Node | None:
    """The node under a key or index; None if there is none."""
    if isinstance(node, Mapping):
        return node.items.get(str(key))
    if isinstance(node, Listing) and isinstance(key, int) and key < len(node.items):
        return node.items[key]
    return None


def text_of(node: Node | None) -> str | None:
    """The text of a scalar; None for anything else, and for null."""
    return node.text if isinstance(node, Scalar) and as_written(node) is not None else None


def is_given(node: Node | None) -> bool:
    """Whether the node exists and is not null."""
    return node is not None and (not isinstance(node, Scalar) or as_written(node) is not None)


def named(section: Node | None, field: str) -> dict[str, int]:
    """The index of each item of a list by its name."""
    out: dict[str, int] = {}
    for index, item in enumerate(section.items if isinstance(section, Listing) else ()):
        name = text_of(child(item, field))
        if name is not None:
            out.setdefault(name, index)
    return out


def with_items(node: Mapping, items: dict[str, Node]) -> Mapping:
    """The mapping with some keys replaced or added."""
    lines = {key: node.lines.get(key, item.line) for key, item in items.items()}
    return replace(node, items={**node.items, **items}, lines={**node.lines, **lines})


def without(node: Mapping, *keys: str) -> Mapping:
    """The mapping less some keys."""
    kept = {key: item for key, item in node.items.items() if key not in keys}
    return replace(node, items=kept, lines={key: node.lines[key] for key in kept})


def merged(base: Node, over: Node) -> Node:
    """One tree put over another: mappings are merged, anything else is replaced.

    A merged mapping keeps its place in the base; only the values of the other tree have theirs there.
    """
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    return _with(
        base, over, {key: merged(base.items[key], item) for key, item in over.items.items() if key in base.items}
    )


def merged_configs(base: Mapping, over: Mapping) -> Mapping:
    """One config put over another: items of the same name are merged, others are added after those of the base."""
    both: dict[str, Node] = {}
    for key, item in over.items.items():
        before = base.items.get(key)
        if key in NAMED_SECTIONS and isinstance(before, Listing) and isinstance(item, Listing):
            both[key] = _merged_section(before, item, NAMED_SECTIONS[key])
        elif before is not None:
            both[key] = merged(before, item)
    return _with(base, over, both)


def _with(base: Mapping, over: Mapping, both: dict[str, Node]) -> Mapping:
    """The base with the keys of another mapping, some of them merged already."""
    items = {**base.items, **over.items, **both}
    kept = {key: base.lines[key] for key, item in both.items() if item.source == base.items[key].source}
    return replace(base, items=items, lines={**base.lines, **over.lines, **kept})


def _merged_section(base: Listing, over: Listing, field: str) -> Listing:
    items = list(base.items)
    places = named(base, field) | {item.text: at for at, item in enumerate(items) if isinstance(item, Scalar)}
    for item in over.items:
        name = item.text if isinstance(item, Scalar) else text_of(child(item, field))
        at = places.get(name) if name is not None else None
        if at is None:
            items.append(item)
        else:
            items[at] = merged(items[at], item)
    return replace(base, items=items)


def node_of(value: Any, source: str, line: int = 1) -> Node:
    """The tree of plain values, as if a file had them on one line."""
    if isinstance(value, dict):
        items = {str(key): node_of(item, source, line) for key, item in value.items()}
        return Mapping(items, dict.fromkeys(items, line), line, source)
    if isinstance(value, list | tuple):
        return Listing([node_of(item, source, line) for item in value], line, source)
    if isinstance(value, str):
        return Scalar(value, plain=False, line=line, source=source)
    return Scalar(encode(normalise(value)).decode(), plain=True, line=line, source=source)


def scalars(node: Node, loc: Loc = ()) -> Iterator[tuple[Loc, Scalar]]:
    """Every scalar with its place."""
    if isinstance(node, Scalar):
        yield loc, node
    elif isinstance(node, Mapping):
        for key, item in node.items.items():
            yield from scalars(item, (*loc, key))
    else:
        for index, item in enumerate(node.items):
            yield from scalars(item, (*loc, index))


def with_scalars(node: Node, change: Callable[[Loc, Scalar], Node], loc: Loc = ()) -> Node:
    """The tree with each scalar replaced by what ``change`` makes of it."""
    if isinstance(node, Scalar):
        return change(loc, node)
    if isinstance(node, Mapping):
        return replace(node, items={key: with_scalars(item, change, (*loc, key)) for key, item in node.items.items()})
    return replace(node, items=[with_scalars(item, change, (*loc, at)) for at, item in enumerate(node.items)])


def size_of(node: Node) -> int:
    """How many values a tree holds."""
    if isinstance(node, Scalar):
        return 1
    inner = node.items.values() if isinstance(node, Mapping) else node.items
    return 1 + sum(map(size_of, inner))
