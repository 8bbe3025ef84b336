"""`gage_eval.plugins` is all that a plug-in needs, and loads nothing that the plug-in does not use."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gage_eval import plugins
from gage_eval.extend import registry

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [*sorted((DOCS / "plugins").glob("*.md")), DOCS / "scoring.md"]


def imported(code: str) -> set[str]:
    """The modules of ours that a program imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.partition(".")[0] == "gage_eval"}


def test_every_name_is_there_and_listed() -> None:
    assert set(plugins.__all__) == set(plugins._HOMES)
    assert [name for name in plugins.__all__ if getattr(plugins, name, None) is None] == []
    with pytest.raises(AttributeError):
        _ = plugins.no_such_name


def test_every_kind_of_plugin_has_its_decorator() -> None:
    decorators = {
        "loaders": "loader", "preprocessors": "preprocessor", "backends": "backend", "metrics": "metric",
        "filters": "text_filter", "verdict_parsers": "verdict_parser", "aggregations": "aggregation", "tools": "tool",
    }  # fmt: skip
    assert decorators.keys() == registry.ALL.keys()
    assert set(decorators.values()) <= set(plugins.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_on_plugins_import_nothing_else_of_ours(page: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert set().union(*map(imported, blocks)) <= {"gage_eval", "gage_eval.plugins"}


def test_a_name_loads_only_what_it_needs() -> None:
    code = (
        "import sys, gage_eval.plugins as plugins\n"
        "before = 'pydantic' in sys.modules or 'pyarrow' in sys.modules\n"
        "plugins.InputError\n"
        "print(before, any(name.startswith(('gage_eval.models', 'gage_eval.scoring')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
