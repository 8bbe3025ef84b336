"""Names of models and configs, questions, subjects and answers are hostile in every file that is shown to people."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.command import Command
from support.endpoint import mock_endpoint

TEXT = "=cmd|' /C calc'!A0 \"><script>alert(1)</script>\\input{/etc/passwd}$x$ [a](javascript:alert(1)) | `rm` & % _ ~"
MODEL = '=HYPERLINK("x")<img src=x onerror=alert(1)>\\def\\x{}& %'


@pytest.fixture
def _runs(tmp_path: Path, gage: Command) -> None:
    rows = [{"question": TEXT, "answer": TEXT, "metadata": {"topic": TEXT}}, {"question": "+1", "answer": "@SUM(1)"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with mock_endpoint(model=MODEL, thinking=TEXT) as endpoint:
        config: dict[str, Any] = {
            "metadata": {"name": TEXT},
            "datasets": [{"dataset_id": "rows", "params": {"path": "rows.jsonl"}}],
            "backends": [
                {"backend_id": "m", "type": "openai_http", "config": {"base_url": endpoint.url, "model": MODEL}}
            ],
            "metrics": [{"metric_id": "contains", "slices": ["metadata.topic"]}],
        }
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
        for run in ("first", "second"):
            ended = gage("run", "mine.yaml", "--run-id", run, "--freshness", run)
            assert ended.code == 0, ended.err


def cells(file: Path) -> list[str]:
    with file.open(newline="", encoding="utf-8") as lines:
        return [cell for row in csv.reader(lines) for cell in row]


@pytest.mark.usefixtures("_runs")
def test_no_export_runs_what_a_text_says(tmp_path: Path, gage: Command) -> None:
    shown = [f"--to={tmp_path / 'out' / name}" for name in ("a.md", "a.tex", "a.csv", "a.svg")]
    changed = [f"--to={tmp_path / 'out' / name}" for name in ("b.md", "b.tex", "b.csv", "b.svg")]
    site = ("export", "first", "second", "--format", "site", "--to", "out/site")
    formats = ("csv", "jsonl", "parquet", "lm-eval", "inspect", "per_sample_json")
    exports = [("export", "first", "--format", name, "--to", f"out/{name}") for name in formats]
    for arguments in (("show", "first", *shown), ("compare", "first", "second", *changed), site, *exports):
        ended = gage(*arguments)
        assert ended.code == 0, f"{arguments}: {ended.err}"
    out = tmp_path / "out"
    for file in (*out.rglob("*.html"), *out.rglob("*.svg"), *tmp_path.rglob("report.html")):
        page = file.read_text()
        assert "<script>alert" not in page, file
        assert "<img src=x" not in page, file
    for file in out.rglob("*.csv"):
        assert [cell for cell in cells(file) if cell.startswith(("=", "+", "@"))] == [], file
    for file in out.rglob("*.tex"):
        printed = [line for line in file.read_text().splitlines() if not line.startswith("%")]
        assert "\\input" not in "\n".join(printed), file
        assert "$x$" not in "\n".join(printed), file
    for file in out.rglob("*.md"):
        assert "<script>" not in file.read_text().replace("\\<", ""), file
        assert "](javascript" not in file.read_text().replace("\\]", ""), file
    (results,) = (out / "lm-eval").rglob("results_*.json")
    assert json.loads(results.read_text())["model_name"] == MODEL
    assert results.parent.name.startswith("HYPERLINK-x-")
