"""docs/environment.md lists what the code reads."""

import re
from pathlib import Path

from tools import environment_page

_READ = re.compile(r'\benv(?:iron)?(?:\.get\(|\[)"([A-Z][A-Z_]+)"')


def test_the_page_is_that_of_the_settings(repo_root: Path) -> None:
    assert (repo_root / "docs" / "environment.md").read_text(encoding="utf-8") == environment_page.page(), (
        "docs/environment.md is stale; write it by python -m tools.environment_page"
    )


def test_every_variable_that_is_read_by_its_name_is_on_the_page(repo_root: Path) -> None:
    sources = [file for package in ("gage_eval", "flows", "tasks") for file in (repo_root / package).rglob("*.py")]
    read = {name for file in sources for name in _READ.findall(file.read_text(encoding="utf-8"))}
    assert {"PREFECT_API_URL", "XDG_CACHE_HOME"} <= read, "the pattern finds them"
    assert [name for name in sorted(read) if f"`{name}`" not in environment_page.page()] == []


def test_every_variable_of_a_config_of_ours_is_on_the_page(repo_root: Path) -> None:
    configs = (repo_root / "configs").rglob("*.yaml")
    named = {name for file in configs for name in re.findall(r"\$\{([A-Z_]+)", file.read_text(encoding="utf-8"))}
    assert named
    assert [name for name in sorted(named) if f"`{name}`" not in environment_page.page()] == []
