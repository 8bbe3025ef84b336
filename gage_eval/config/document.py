"""A config while it is being read: plain values with their origins and problems."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gage_eval.base.errors import ConfigError, Problem
from gage_eval.config.interpolate import FilledTree
from gage_eval.config.problems import ConfigProblem, Loc, path_text
from gage_eval.config.suites.card import SuiteCard, SuiteIdentity
from gage_eval.config.yaml.loc_tree import LocTree
from gage_eval.extend.loading import NotImported

Kind: TypeAlias = Literal["file", "template", "command line", "environment", "rule", "pin", "block"]


@dataclass(frozen=True)
class Origin:
    """The origin of a config's value.

    Attributes:
        kind: ``file``, ``template`` (the file of a suite), ``command line``, ``environment``, ``rule``, ``pin`` or
            ``block``.
        source: the file, the option, the variable, the block, or a description of the rule.
        line: line in the file, from 1.
        variables: variables whose placeholders were replaced in the value.
        rule: the name of the rule (`gage_eval.config.rules`).
    """

    kind: Kind
    source: str
    line: int | None = None
    variables: tuple[str, ...] = ()
    rule: str = ""

    def __str__(self) -> str:
        if self.kind == "rule":
            return f"rule {self.rule}: {self.source}"
        location = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{location} with {', '.join(self.variables)}" if self.variables else location

    def remark(self, file: str) -> str:
        """What an error of a file adds about a value that stands on no line of it; empty for one that does."""
        if self.kind in ("file", "template"):
            return "" if self.source == file else f" (in {self})"
        return f" (implied: {self.source})" if self.kind == "rule" else f" (given by {self.source})"


class Document:
    """A config on its way through the passes.

    Locations (`Loc`) are keys and indexes from the top of the pipeline. ``prefix`` is the pipeline's location in the
    file.

    Attributes:
        source: the file, as given.
        title: what an error calls it: the file, or the suite.
        whole: the file as plain values.
        data: the pipeline in it.
        prefix: location of the pipeline in the file.
        variables: names of the variables that were used, by location in the file.
        unruled: the pipeline before rules filled in unset values.
        problems: the mistakes, in the order in which they were found.
        warnings: things that work but are probably not intended, one sentence each.
        card: the facts of the suite; None for a config that is not a suite.
        text: the whole config as a run keeps it, placeholders as written.
        suite: which suite the config is or runs; None for other configs.
        blocks: the backends that Prefect blocks gave, by the block's name.
        files: the other files that the config was put together from.
    """

    def __init__(self, filled: FilledTree, source: str, templates: Collection[str] = ()) -> None:
        self.source = self.title = source
        self.whole = filled.value
        self.data: Any = filled.value
        self.prefix: Loc = ()
        self.variables = filled.variables
        self.unruled: Any = None
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.card: SuiteCard | None = None
        self.text = ""
        self.suite: SuiteIdentity | None = None
        self.blocks: Mapping[str, Mapping[str, Any]] = {}
        self.files: tuple[Path, ...] = ()
        self._origins = LocTree[Origin]()
        for loc, line in filled.lines.items():
            file = filled.sources.get(loc, source)
            kind: Kind = "template" if file in templates else "file"
            self._origins.set(loc, Origin(kind, file, line, tuple(filled.variables.get(loc, ()))))
        # The locations with problems, and those around them.
        self._reported: set[Loc] = set()
        # The first error raised by plug-in code.
        self._cause: BaseException | None = None
        self.add(filled.problems)

    def enter(self, key: str) -> None:
        """Use the value of a key of the file as the pipeline."""
        self.data, self.prefix = self.whole[key], (key,)

    def put(self, loc: Loc, value: Any, origin: Origin) -> None:
        """Set a value. Missing mappings above it are created."""
        here = self.data
        for part in loc[:-1]:
            if isinstance(here, dict) and here.get(part) is None:
                here[part] = {}
            here = here[part]
        here[loc[-1]] = value
        full = (*self.prefix, *loc)
        if self._origins.get(full) is not None:
            self._origins.remove(full)
        for inner in _locs(value):
            self._origins.set((*full, *inner), origin)

    def take(self, loc: Loc) -> Any:
        """Remove a value; its origin stays known, for what is made of it."""
        here = self.value(loc[:-1])
        return here.pop(loc[-1], None) if isinstance(here, dict) else None

    def set_by(self, *kinds: Kind) -> Iterator[tuple[Loc, Origin]]:
        """The locations whose values have one of these kinds of origin."""
        for full, origin in self._origins.below(self.prefix):
            if origin.kind in kinds:
                yield full[len(self.prefix) :], origin

    def respell(self, loc: Loc, value: dict[str, Any], parts: Mapping[str, Loc]) -> None:
        """Replace a value by another form of it, with the same origin.

        Args:
            loc: location of the value.
            value: the other form.
            parts: for each key of the new form, the location of its value in the old form.
        """
        full = (*self.prefix, *loc)
        origins = {}
        for inner in _locs(value):
            stood = (*parts[str(inner[0])], *inner[1:]) if inner and inner[0] in parts else inner
            origin = self._origins.nearest((*full, *stood))
            if origin is not None:
                origins[(*full, *inner)] = origin
        here = self.data
        for part in loc[:-1]:
            here = here[part]
        here[loc[-1]] = value
        self._origins.remove(full)
        for place, origin in origins.items():
            self._origins.set(place, origin)

    def origin(self, loc: Loc) -> Origin | None:
        """The origin of a value; None if it was not given."""
        return self._origins.get((*self.prefix, *loc))

    def nearest(self, loc: Loc) -> Origin | None:
        """The origin of a value, or of the nearest value around it."""
        return self._origins.nearest((*self.prefix, *loc))

    def value(self, loc: Loc) -> Any:
        """The value at a location; None without one."""
        return value_at(self.data, loc)

    def mappings(self, *loc: str | int) -> Iterator[tuple[int, dict[str, Any]]]:
        """The mappings of a list with their indexes. The validation refuses other items."""
        items = self.value(loc)
        if isinstance(items, list):
            yield from ((index, item) for index, item in enumerate(items) if isinstance(item, dict))

    def backends(self) -> Iterator[tuple[Loc, dict[str, Any]]]:
        """The backends with their locations, also those inside role adapters."""
        for index, backend in self.mappings("backends"):
            yield ("backends", index), backend
        for index, adapter in self.mappings("role_adapters"):
            if isinstance(inline := adapter.get("backend"), dict):
                yield ("role_adapters", index, "backend"), inline

    def add(self, problems: Iterable[ConfigProblem], *, whole: bool = False) -> None:
        """Add problems: at most one per location, and none for the values around it.

        Args:
            problems: located in the pipeline. `NotImported` causes are ignored.
            whole: their locations start at the top of the file.
        """
        known, reported = set(self.problems), set[Loc]()
        for item in problems:
            if isinstance(item.cause, NotImported):
                continue
            full = item.loc if whole else (*self.prefix, *item.loc)
            if full in self._reported:
                continue
            reported.update(full[:end] for end in range(len(full) + 1))
            self._cause = self._cause or item.cause
            origin = self._of_problem(full)
            remark = origin.remark(self.source) if origin is not None else ""
            line = origin.line if origin is not None and not remark else None
            problem = Problem(path_text(full), item.message + remark, line)
            if problem not in known:
                known.add(problem)
                self.problems.append(problem)
        self._reported |= reported

    def refuse(self, message: str) -> None:
        """Note a problem of the whole config, which has no line in the file."""
        self.problems.append(Problem("", message))

    def error(self) -> ConfigError:
        """All problems in the order of the file."""
        error = ConfigError(self.title, sorted(self.problems, key=lambda problem: problem.line or 0))
        error.__cause__ = self._cause
        return error

    def _of_problem(self, full: Loc) -> Origin | None:
        """The origin of a wrong value, or of a value put into a section that is not in the file."""
        origin = self._origins.nearest(full)
        if origin is not None and self._origins.get(()) is not origin:
            return origin
        put = ("command line", "environment", "block")
        return next((origin for _, origin in self._origins.below(full) if origin.kind in put), None)


def _locs(value: Any) -> Iterator[Loc]:
    """The locations of a value and of everything in it, relative to the value."""
    yield ()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from ((key, *inner) for inner in _locs(item))


def leaves(value: Any, loc: Loc = ()) -> Iterator[tuple[Loc, Any]]:
    """The scalars and empty mappings in a value, each with its location."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        yield loc, value
    for key, item in items:
        yield from leaves(item, (*loc, key))


def value_at(data: Any, loc: Loc) -> Any:
    """The value at a location of plain values; None without one."""
    for part in loc:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def copied(value: Any) -> Any:
    """A deep copy of plain values."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
