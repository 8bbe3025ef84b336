"""A tree of values by their locations in a config. Values below a location are found without a scan of the rest."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gage_eval.config.problems import Loc

T = TypeVar("T")


@dataclass
class _Node(Generic[T]):
    value: T | None = None
    inner: dict[str | int, "_Node[T]"] = field(default_factory=dict)


class LocTree(Generic[T]):
    """A value for some locations; those above and below them may have values of their own."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def set(self, loc: Loc, value: T) -> None:
        """Give a location a value."""
        node = self._root
        for part in loc:
            node = node.inner.setdefault(part, _Node())
        node.value = value

    def get(self, loc: Loc) -> T | None:
        """The value of exactly this location."""
        node = self._at(loc)
        return None if node is None else node.value

    def nearest(self, loc: Loc) -> T | None:
        """The value of the location, or of the nearest one around it."""
        node, nearest = self._root, self._root.value
        for part in loc:
            inner = node.inner.get(part)
            if inner is None:
                break
            node, nearest = inner, nearest if inner.value is None else inner.value
        return nearest

    def remove(self, loc: Loc) -> None:
        """Forget the values of a location and of all below it."""
        above = self._at(loc[:-1])
        if not loc:
            self._root = _Node()
        elif above is not None:
            above.inner.pop(loc[-1], None)

    def below(self, loc: Loc) -> Iterator[tuple[Loc, T]]:
        """The location and those below it that have values, in the order in which they were first set."""
        node = self._at(loc)
        return iter(()) if node is None else _values(node, loc)

    def _at(self, loc: Loc) -> _Node[T] | None:
        node: _Node[T] | None = self._root
        for part in loc:
            node = None if node is None else node.inner.get(part)
        return node


def _values(node: _Node[T], loc: Loc) -> Iterator[tuple[Loc, T]]:
    if node.value is not None:
        yield loc, node.value
    for part, inner in node.inner.items():
        yield from _values(inner, (*loc, part))
