"""docs/metrics.md says what the code does."""

from pathlib import Path

import pytest

from gage_eval.extend import registry
from tools import metrics_page
from tools.metric_sources import SOURCES


def test_the_page_is_that_of_the_code(repo_root: Path) -> None:
    assert (repo_root / "docs" / "metrics.md").read_text(encoding="utf-8") == metrics_page.page(), (
        "docs/metrics.md is stale; write it by python -m tools.metrics_page"
    )


def test_every_built_in_metric_says_its_rule_parameters_source_and_version() -> None:
    page = metrics_page.page()
    for plugin in registry.metrics:
        if plugin.origin != "builtin":
            continue
        section = page.partition(f"\n### {plugin.name}\n")[2].partition("\n### ")[0]
        assert f"- version {plugin.version}, [gage_eval/scoring/metrics/" in section
        assert plugin.summary.split("`")[0] in section
        for value in plugin.info["values"]:
            assert f"`{value}`" in section


def test_a_stale_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metrics_page, "page", lambda: "new\n")
    monkeypatch.setattr(metrics_page, "PAGE", tmp_path / "metrics.md")
    assert metrics_page.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert metrics_page.main([]) == 0
    assert metrics_page.main(["--check"]) == 0


def test_every_metric_says_where_its_rule_comes_from() -> None:
    built_in = {plugin.name for plugin in registry.metrics if plugin.is_builtin}
    assert set(SOURCES) == built_in
    text = metrics_page.page()
    assert text.count("- source of the rule: ") == text.count("- known difference: ") == len(built_in)
