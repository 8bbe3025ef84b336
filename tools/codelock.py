"""The lock file of built-in code: a change of results needs a new version.

Keys contain only the version of built-in code (`registry.Plugin.identity`). So after an edit that changes results
without a new version, old artifacts would be used for new code. ``code.lock.json`` has for every stage, step and
built-in plug-in its version and a hash of the code that determines its results. A test fails if they do not match.

    python -m tools.codelock            record the code as it is; versions must have been raised
    python -m tools.codelock --check    show what differs from the lock
    python -m tools.codelock --same-results [NAME …]   record edits that do not change results

The hash of an entry covers the definitions that it reaches in the modules of `SEMANTIC`: functions, classes and
constants, by name and through imports, as syntax trees without comments, docstrings and formatting. `ast.dump` is not
used, because its output differs between versions of Python.
"""

import argparse
import ast
import hashlib
import importlib.util
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gage_eval import registry
from gage_eval.canonical import decode
from gage_eval.errors import InputError, closest

LOCK = Path(__file__).with_name("code.lock.json")

# Code that determines results.
SEMANTIC = frozenset(
    {
        *("canonical", "field_paths", "inputs", "sample", "statuses", "tables", "extract", "datasets", "standardize"),
        *("prepare", "prompts", "metrics", "stats", "backends", "scorecards", "client.types", "report.summary"),
        "report.metric_names",
        *("engine.asking", "engine.assembly", "engine.episodes", "engine.feeding", "engine.generate", "engine.known"),
        *("engine.rows", "planning.asks", "planning.judge_overrides", "planning.judge_spec", "planning.outputs"),
        *("planning.render", "planning.source", "planning.tool_outputs", "stages.auto_eval", "stages.generation"),
        *("stages.infer", "stages.judge", "stages.load", "stages.preprocess", "stages.rejects", "stages.report"),
        *("stages.sample_ids", "stages.score_parts", "stages.standardize"),
    }
)
# Code that semantic code uses but that does not determine results: it moves, stores or reports results, or makes keys,
# where a change is visible. A test fails for a module in neither list.
MOVING = frozenset(
    {
        *("client.adaptive", "client.budget", "client.connect", "client.connection", "client.http", "client.http1"),
        *("client.limiter", "client.pace", "client.retry", "client.route", "client.watch"),
        *("engine.answers", "engine.gathering", "engine.job", "engine.neighbours", "engine.ready"),
        *(
            "engine.host",
            "engine.loop",
            "engine.quota",
            "engine.refusals",
            "engine.runtime",
            "engine.shared_budget",
            "engine.shared_limits",
            "engine.shared_log",
            "engine.wal",
        ),
        *(
            "allowed_code",
            "built_in",
            "errors",
            "extras",
            "files",
            "foreign",
            "hashing",
            "interrupts",
            "lean",
            "marks",
            "observability",
            "ports",
            "python_syntax",
        ),
        *("planning.generate_spec", "planning.keys", "planning.specs", "registry", "stages.base", "stages.unscored"),
        "stages.watching",
        "report.timings",
        "store",
    }
)
PLUGINS = ("loaders", "preprocessors", "backends", "metrics", "filters", "verdict_parsers", "aggregations")

_PACKAGE = "gage_eval"
_NOT_CODE = (ast.Import, ast.ImportFrom)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Entry:
    """Version and code hash of something that keys name by its version."""

    version: int
    sha256: str


def current() -> dict[str, Entry]:
    """The entries of the current code, by ``kind:name``."""
    found = dict(_roots())
    own = {(module, name) for _, module, name in found.values()}
    return {entry: Entry(version, _hash(module, name, own)) for entry, (version, module, name) in found.items()}


def unplaced() -> list[str]:
    """The modules that semantic code uses but that are in neither `SEMANTIC` nor `MOVING`."""
    reached = _Reach(())
    for _, module, name in dict(_roots()).values():
        reached.name(module, name)
    return sorted(module for module in reached.outside if not _is_in(module, MOVING))


def read(file: Path = LOCK) -> dict[str, Entry]:
    """The entries of a lock file; empty if the file does not exist.

    Raises:
        InputError: the file is not a lock file.
    """
    if not file.is_file():
        return {}
    try:
        entries = decode(file.read_bytes()).items()
        return {name: Entry(int(entry["version"]), str(entry["sha256"])) for name, entry in entries}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{file.name} is not a lock file ({error}). Restore it from version control.") from error


def differences(locked: Mapping[str, Entry], code: Mapping[str, Entry]) -> list[str]:
    """A sentence for every entry that does not match the lock: what differs, and what to do."""
    out = []
    for name in sorted({*locked, *code}):
        was, now = locked.get(name), code.get(name)
        if was == now:
            continue
        if was is None:
            out.append(f"{name} is not in the lock. Record it: make lock.")
        elif now is None:
            out.append(f"{name} is in the lock and no longer in the code. Record that: make lock.")
        elif was.version == now.version:
            out.append(
                f"{name}: its code changed and its version ({now.version}) did not. If results can differ, raise the "
                "version where it is declared, then make lock; if they cannot, make lock ARGS=--same-results."
            )
        elif was.version > now.version:
            out.append(f"{name}: its version went back from {was.version} to {now.version}. Versions only rise.")
        else:
            out.append(f"{name}: version {now.version} is not in the lock. Record it: make lock.")
    return out


def updated(
    locked: Mapping[str, Entry], code: Mapping[str, Entry], same_results: Collection[str] | None = None
) -> dict[str, Entry]:
    """The lock of the current code.

    Args:
        locked: the lock so far.
        code: the entries of the code.
        same_results: entries whose edits do not change results; empty: all entries; None: no entries.

    Raises:
        InputError: code changed under an unchanged version, a version went back, or a name is not an entry.
    """
    for name in same_results or ():
        if name not in code:
            raise InputError(f"--same-results {name}: no such entry.{closest(name, code)}")
    refused = []
    for name, was in locked.items():
        now = code.get(name, was)
        excused = same_results is not None and (not same_results or name in same_results)
        if now.version < was.version or (now.version == was.version and now != was and not excused):
            refused.append(name)
    if refused:
        sentences = differences({name: locked[name] for name in refused}, {name: code[name] for name in refused})
        raise InputError("\n".join(sentences))
    return dict(code)


def text(entries: Mapping[str, Entry]) -> str:
    """The lock file's text, one entry per line so that merges stay small."""
    lines = [
        f"  {json.dumps(name)}: " + json.dumps({"version": entry.version, "sha256": entry.sha256})
        for name, entry in sorted(entries.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments: Sequence[str] | None = None, *, file: Path = LOCK) -> int:
    """The command line. Returns the exit code: 0 the lock matches, 1 it does not, 2 an update was refused."""
    parser = argparse.ArgumentParser(prog="python -m tools.codelock", description="Lock of the built-in code.")
    parser.add_argument("--check", action="store_true", help="change nothing, show what differs")
    parser.add_argument("--update", action="store_true", help="record the code as it is (the default)")
    parser.add_argument(
        "--same-results", nargs="*", metavar="NAME", help="the edits (of these entries) do not change results"
    )
    given = parser.parse_args(arguments)
    if given.check and (given.update or given.same_results is not None):
        parser.error("--check cannot be combined with other options")
    locked, code = read(file), current()
    if given.check:
        found = differences(locked, code)
        sys.stdout.write("".join(f"{sentence}\n" for sentence in found))
        return 1 if found else 0
    try:
        new = updated(locked, code, given.same_results)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    file.write_text(text(new), encoding="utf-8")
    changed = sum(locked.get(name) != entry for name, entry in new.items()) + len(locked.keys() - new.keys())
    sys.stdout.write(f"{file.name}: {changed} of {len(new)} entries changed.\n")
    return 0


def _roots() -> Iterator[tuple[str, tuple[int, str, str]]]:
    """(entry, (version, module, name of the definition)) of everything that keys name by its version."""
    from gage_eval.planning import keys
    from gage_eval.stages import ALL

    def root(version: int, obj: Any) -> tuple[int, str, str]:
        return version, obj.__module__, obj.__qualname__.partition(".")[0]

    for name, info in ALL.items():
        yield f"stages:{name}", root(keys.VERSIONS[name], info.body)
    scoring = importlib.import_module("gage_eval.stages.auto_eval")
    yield "steps:scores", root(keys.SCORES_VERSION, scoring.scores)
    yield "steps:render", (keys.RENDER_VERSION, "gage_eval.planning.source", "RoleSource")
    for kind in PLUGINS:
        for plugin in registry.ALL[kind]:
            if plugin.origin == "builtin":
                yield f"{kind}:{plugin.name}", root(plugin.version, plugin.obj)


@dataclass
class _Module:
    """A module's source: the definitions of its names, and the origins of imported names."""

    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    # Statements with effects at import: they are part of the hash whenever the module is.
    acting: list[ast.stmt] = field(default_factory=list)


@cache
def _module(name: str) -> _Module:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"there is no module {name}"
    assert spec.origin is not None, f"{name} has no source"
    return _parsed(Path(spec.origin).read_text(encoding="utf-8"))


def _parsed(source: str) -> _Module:
    tree = ast.parse(source)
    out = _Module()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                out.imports[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0],
                    None,
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origin = node.module or ""
                whole = _is_module(f"{origin}.{alias.name}")
                out.imports[alias.asname or alias.name] = (
                    (f"{origin}.{alias.name}", None) if whole else (origin, alias.name)
                )
    for statement in tree.body:
        if isinstance(statement, _NOT_CODE) or _is_text(statement):
            continue
        names = _defined(statement)
        for name in names:
            out.definitions.setdefault(name, []).append(statement)
        if not names:
            out.acting.append(statement)
    return out


def _defined(statement: ast.stmt) -> list[str]:
    """The names a statement defines; empty if it also does anything else."""
    if isinstance(statement, _Definition):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    else:
        return []
    flat = [item for target in targets for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
    names = [item.id for item in flat if isinstance(item, ast.Name)]
    return names if len(names) == len(flat) else []


def _is_module(name: str) -> bool:
    if name.partition(".")[0] != _PACKAGE:
        return False
    parent = importlib.util.find_spec(name.rpartition(".")[0])
    if parent is None or parent.submodule_search_locations is None:
        return False
    return importlib.util.find_spec(name) is not None


def _is_in(module: str, names: Collection[str]) -> bool:
    """Whether the names contain a module or one of its packages."""
    package, _, rest = module.partition(".")
    parts = rest.split(".")
    return package == _PACKAGE and any(".".join(parts[:end]) in names for end in range(1, len(parts) + 1))


def _hash(module: str, name: str, entries: Collection[tuple[str, str]]) -> str:
    """sha256 of all code that a definition reaches.

    Args:
        module, name: the definition.
        entries: definitions with their own entries. A decorated one of them counts where it is reached. Any other
            decorated definition may have registered itself and counts with its module.
    """
    reached = _Reach(entries)
    reached.name(module, name)
    hashed = hashlib.sha256()
    for address in sorted(reached.code):
        hashed.update(f"{address}\n{reached.code[address]}\n".encode())
    return hashed.hexdigest()


class _Reach:
    """Collects the code of definitions and of everything they use."""

    def __init__(self, entries: Collection[tuple[str, str]]) -> None:
        self.code: dict[str, str] = {}
        self.outside: set[str] = set()
        self._entries = entries
        self._seen: set[tuple[str, str | None]] = set()

    def name(self, module: str, name: str | None) -> None:
        """Add a name of a module; None adds the whole module."""
        if (module, name) in self._seen:
            return
        self._seen.add((module, name))
        if module.partition(".")[0] != _PACKAGE:
            self.code[f"import {module}:{name}"] = ""
            return
        if not _is_in(module, SEMANTIC):
            self.outside.add(module)
            return
        source = _module(module)
        if name is None:
            for each in source.definitions:
                self.name(module, each)
        elif name in source.definitions:
            self._enter(module, source)
            for number, statement in enumerate(source.definitions[name]):
                self._add(f"{module}:{name}#{number}", module, source, statement)
        elif name in source.imports:
            self.name(*source.imports[name])

    def _enter(self, module: str, source: _Module) -> None:
        """Add what always counts in a module."""
        if (module, "") in self._seen:
            return
        self._seen.add((module, ""))
        for number, statement in enumerate(source.acting):
            self._add(f"{module}#{number}", module, source, statement)
        for name, statements in source.definitions.items():
            decorated = any(isinstance(item, _Definition) and item.decorator_list for item in statements)
            if decorated and (module, name) not in self._entries:
                self.name(module, name)

    def _add(self, address: str, module: str, source: _Module, statement: ast.stmt) -> None:
        self.code[address] = normal_form(statement)
        for owner, name in _uses(statement):
            if owner in source.definitions:
                self.name(module, owner)
            elif owner in source.imports:
                origin, attribute = source.imports[owner]
                self.name(origin, attribute if attribute is not None else name)


def _uses(statement: ast.stmt) -> Iterator[tuple[str, str | None]]:
    """(name, attribute) of every name that a statement reads; the attribute if it is read directly from the name."""
    inside: set[int] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            inside.add(id(node.value))
            yield node.value.id, node.attr
        elif isinstance(node, ast.Name) and id(node) not in inside:
            yield node.id, None


def normal_form(node: Any) -> str:
    """A syntax tree as text, independent of formatting, comments, docstrings and the Python version."""
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__}:{node.value!a}"
    if isinstance(node, ast.AST):
        parts = [f"{name}={normal_form(item)}" for name, item in ast.iter_fields(node) if _counts(name, item)]
        return f"{type(node).__name__}({', '.join(parts)})"
    if isinstance(node, list):
        return f"[{', '.join(normal_form(item) for item in node if not _is_text(item))}]"
    return ascii(node)


def _counts(name: str, item: Any) -> bool:
    """Whether a field of a node counts: Python versions differ in empty fields."""
    return name not in ("ctx", "type_comment", "kind", "type_ignores") and item is not None and item != []


def _is_text(node: Any) -> bool:
    """Whether a node is a docstring, or a text after an attribute."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


if __name__ == "__main__":
    sys.exit(main())
