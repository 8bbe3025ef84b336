"""docs/preprocessors.md says what the code does."""

from pathlib import Path

from gage_eval.data.standardize.base import options_of
from gage_eval.extend import registry
from tools import preprocessors_page


def test_the_page_is_that_of_the_code(repo_root: Path) -> None:
    assert (repo_root / "docs" / "preprocessors.md").read_text(encoding="utf-8") == preprocessors_page.page(), (
        "docs/preprocessors.md is stale; write it by python -m tools.preprocessors_page"
    )


def test_every_option_of_every_preprocessor_is_described() -> None:
    for plugin in registry.preprocessors:
        if plugin.origin != "builtin":
            continue
        section = preprocessors_page.page().partition(f"\n## {plugin.name}\n")[2].partition("\n## ")[0]
        for name, _, _, description in options_of(plugin.obj):
            assert description.endswith("."), f"{plugin.name}.{name}"
            assert name == "fields" or f"| `{name}` |" in section
