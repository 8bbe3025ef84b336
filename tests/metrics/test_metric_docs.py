"""docs/metrics.md says what the code does."""

from pathlib import Path

import pytest

from gage_eval import registry
from gage_eval.metrics import docs


def test_the_page_is_that_of_the_code(repo_root: Path) -> None:
    assert (repo_root / "docs" / "metrics.md").read_text(encoding="utf-8") == docs.page(), (
        "docs/metrics.md is stale; write it by python -m gage_eval.metrics.docs"
    )


def test_every_built_in_metric_says_its_rule_parameters_source_and_version() -> None:
    page = docs.page()
    for plugin in registry.metrics:
        if plugin.origin != "builtin":
            continue
        section = page.partition(f"\n### {plugin.name}\n")[2].partition("\n### ")[0]
        assert f"- version {plugin.version}, [gage_eval/metrics/" in section
        assert plugin.summary.split("`")[0] in section
        for value in plugin.info["values"]:
            assert f"`{value}`" in section


def test_a_stale_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "page", lambda: "new\n")
    monkeypatch.setattr(docs, "PAGE", tmp_path / "metrics.md")
    assert docs.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
