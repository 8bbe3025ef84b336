"""The table of built-in plug-ins is complete, and a plug-in is imported only when its name is asked for."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

from gage_eval.extend import registry
from gage_eval.extend.built_in import NAMES, PACKAGES


@pytest.mark.parametrize("kind", PACKAGES)
def test_the_table_names_what_every_module_registers(kind: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(PACKAGES[kind]).__path__, PACKAGES[kind] + "."):
        importlib.import_module(module.name)
    registered: dict[str, set[str]] = {}
    for plugin in registry.ALL[kind]:
        if plugin.is_builtin:
            registered.setdefault(plugin.obj.__module__.removeprefix(PACKAGES[kind] + "."), set()).add(plugin.name)
    assert {module: set(names) for module, names in NAMES[kind].items()} == registered


def test_every_kind_has_a_table() -> None:
    assert NAMES.keys() == PACKAGES.keys() == registry.ALL.keys()


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("kind", "lookup", "imported"),
    [
        ("loaders", "get('jsonl')", "data.datasets.jsonl"),
        ("preprocessors", "get('default')", "data.standardize.default"),
        ("backends", "get('dummy')", "models.backends.dummy"),
        ("metrics", "get('exact_match')", "scoring.metrics.builtin.text"),
        ("metrics", "origin('exact_match')", ""),
        ("metrics", "names()", ""),
    ],
)
def test_asking_for_one_plugin_imports_no_other(kind: str, lookup: str, imported: str) -> None:
    modules = [f"{PACKAGES[kind]}.{module}" for module in NAMES[kind]]
    printed = _printed(
        f"import sys; from gage_eval.extend import registry; registry.{kind}.{lookup};"
        f"print(*[name for name in {modules} if name in sys.modules])"
    )
    assert printed == (f"gage_eval.{imported}" if imported else "")


def test_a_plugin_cannot_take_the_name_of_a_built_in_one_that_nobody_has_asked_for() -> None:
    code = (
        "from gage_eval.plugins import metric\n"
        "try:\n    metric('rouge')(lambda prediction: 1.0)\n"
        "except ValueError as error:\n    print(error)"
    )
    printed = _printed(code)
    assert printed.startswith(
        "metrics: two plug-ins are named 'rouge': gage_eval.scoring.metrics.builtin.rouge.rouge and "
    )
