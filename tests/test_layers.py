"""The architecture holds: who may import whom, what start-up loads, what no file names."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("gage_eval", "tasks", "blocks", "flows")

# The packages, inner ones first: each imports only from those before it, lazily or not.
HOUSE = (
    *("base", "extend", "stats", "store", "data", "scoring", "box", "models", "engine"),
    *("observability", "report", "config", "pipeline", "runs"),
)
# The house never imports a wing, and no wing imports another. Only the viewer shows comparisons.
WINGS = ("authoring", "imports", "regression", "viewer", "local")
READS = {("viewer", "regression")}
# Who starts it all.
DOORS = ("plugins", "api", "cli", "__main__")
PLACE_OF = {name: place for place, name in enumerate((*HOUSE, *WINGS, *DOORS))}

# What each top-level package may import of the others. `gage_eval.local.launch` alone starts flows, lazily. Prefect
# imports them through `gage_eval.local.entrypoints`.
OUTER: dict[str, frozenset[str]] = {
    "gage_eval": frozenset(),
    "tools": frozenset({"gage_eval"}),
    "tasks": frozenset({"gage_eval"}),
    "blocks": frozenset({"gage_eval"}),
    "flows": frozenset({"gage_eval", "tasks", "blocks"}),
}

HTTP_CLIENTS = ("aiohttp", "httpx", "requests", "urllib3", "urllib.request", "http.client")
LATE = ("prefect", "pandas", "s3fs")

# Package indexes, and folders of one person's or one machine's.
NOT_FOR_OTHERS = re.compile(
    r"pypi\.org|pythonhosted\.org|--(?:extra-)?index-url|/simple[/]"
    r"|(?<![\w./])/(?:work|root|home/\w+|Users/\w+)/"
)


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(path: Path) -> tuple[tuple[str, int, bool], ...]:
    """(module, line, at module level) of every import of a file; ``from a import b`` counts as ``a.b``."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return tuple(_imports(tree, at_top=True))


def _imports(node: ast.AST, *, at_top: bool) -> Iterator[tuple[str, int, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield alias.name, child.lineno, at_top
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            for alias in child.names:
                yield f"{child.module}.{alias.name}", child.lineno, at_top
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, at_top=at_top and not inside)


def imports(*folders: str) -> Iterator[tuple[str, str, str, bool]]:
    """(importing module, imported module, ``file:line``, at module level) of whole folders."""
    for path in python_files(*folders):
        for name, line, at_top in imports_of(path):
            yield module_of(path), name, f"{path.relative_to(ROOT)}:{line}", at_top


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def part_of_gage_eval(module: str) -> str | None:
    """``store`` for ``gage_eval.store.wip``; None for the package itself and its names."""
    parts = module.split(".")
    if parts[0] != "gage_eval" or len(parts) < 2:
        return None
    folder = ROOT / "gage_eval" / parts[1]
    return parts[1] if folder.is_dir() or folder.with_suffix(".py").is_file() else None


def is_inward(own: str, other: str) -> bool:
    """Whether a part may import another one."""
    if own in WINGS and other in WINGS:
        return own == other or (own, other) in READS
    return PLACE_OF[other] <= PLACE_OF[own]


def test_every_part_has_a_place_and_no_module_stands_beside_the_packages() -> None:
    parts = {part_of_gage_eval(module_of(path)) for path in python_files("gage_eval")} - {None}
    assert parts == PLACE_OF.keys(), "name its place here and in docs/dev/house.md"
    loose = {path.stem for path in (ROOT / "gage_eval").glob("*.py")}
    assert loose == {"__init__", "__main__", "api", "plugins"}


def test_inner_parts_never_import_outer_ones_and_wings_never_each_other() -> None:
    wrong = []
    for module, name, place, _ in imports("gage_eval"):
        own, other = part_of_gage_eval(module), part_of_gage_eval(name)
        if own is not None and other is not None and not is_inward(own, other):
            wrong.append(f"{place}: {own} imports {other}")
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {module_of(path) for path in python_files("gage_eval")}
    imported: dict[str, set[str]] = {}
    for module, name, _, _ in imports("gage_eval"):
        other = name if name in modules else name.rpartition(".")[0]
        if module in modules and other in modules and other != module:
            imported.setdefault(module, set()).add(other)
    circle: list[str] = []
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []


@pytest.mark.parametrize("package", [*PACKAGES, "tools"])
def test_top_level_packages_import_inwards_only(package: str) -> None:
    wrong = []
    for module, name, place, at_top in imports(package):
        other = name.split(".")[0]
        if other == package or other not in PACKAGES or other in OUTER[package]:
            continue
        if module == "gage_eval.local.launch" and other == "flows" and not at_top:
            continue
        wrong.append(f"{place}: {package} imports {other}")
    assert wrong == []


def test_the_domain_never_imports_prefect() -> None:
    wrong = [place for _, name, place, _ in imports("gage_eval") if within(name, "prefect")]
    assert wrong == []


def test_only_models_and_downloads_of_data_and_media_have_an_http_client() -> None:
    wrong = []
    downloads = ("gage_eval.data.datasets.download", "gage_eval.data.prepare.remote")
    for module, name, place, _ in imports(*PACKAGES):
        if within(module, "gage_eval.models") or module in downloads:
            continue
        if module == "gage_eval.box.engine_api":
            # It reaches only the unix socket of a container engine.
            continue
        if any(within(name, client) for client in HTTP_CLIENTS):
            wrong.append(f"{place}: {name}")
    assert wrong == []


def test_requests_to_models_have_one_client() -> None:
    clients = {"aiohttp": "", "httpx": "", "httptools": "gage_eval.models.client.connection"}
    wrong = [
        f"{place}: {name}"
        for module, name, place, _ in imports(*PACKAGES)
        for client, home in clients.items()
        # A server that programs ask parses requests with it.
        if within(name, client) and module not in (home, "gage_eval.models.client.http_server")
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["cli", "pipeline"])
def test_start_up_loads_nothing_heavy(package: str) -> None:
    modules = ", ".join(module_of(path) for path in python_files(f"gage_eval/{package}"))
    assert modules
    program = f"import sys, {modules}; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [name for name in LATE if name in done.stdout.split()] == []


# Default values of fields.
BUILT_AT_ONCE = {
    *("AnswerMeta", "DatasetParams", "LimitsConfig", "Metadata", "NormalizationConfig", "ObservabilityConfig"),
    *("ResourceRequirement", "SinkParams", "TemplateMetadata", "Tokens", "Usage"),
}


def test_start_up_builds_no_model() -> None:
    """Pydantic builds a model when it is first used. A run uses few of them."""
    program = (
        "import gage_eval.cli.runs, gage_eval.runs.session\n"
        "from pydantic import BaseModel\n"
        "def walk(model):\n"
        "    for one in model.__subclasses__():\n"
        "        yield one\n"
        "        yield from walk(one)\n"
        "models = {one for one in walk(BaseModel) if one.__module__.startswith('gage_eval.')}\n"
        "print(*sorted(one.__name__ for one in models if one.__pydantic_complete__ and one.__name__ != 'Settings'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert set(done.stdout.split()) <= BUILT_AT_ONCE


def test_no_tracked_file_names_a_package_index_or_a_folder_of_one_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: there is no list of tracked files")
    wrong = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # pictures and other binary data
        wrong += [f"{name}: {match.group()}" for match in NOT_FOR_OTHERS.finditer(text)]
    assert wrong == []


def test_the_tour_of_the_house_names_files_that_are_there() -> None:
    page = (ROOT / "docs" / "dev" / "house.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / "gage_eval" / name).exists() | (ROOT / name).exists()] == []
