"""Every page on plug-ins does what it says when its files are saved and its commands are run."""

import tomllib
from pathlib import Path

import pytest
from outsider.pages import DOCS, commands, write_files
from support.command import Command
from support.registered import keep
from support.runs import summary

from gage_eval.extend import loading, registry

# Scores by task, metric, filter and value, as the pages state them.
SCORES = {
    "aggregation.md": {("sums", "sums", "mean"): 0.5, ("sums", "sums", "worst.py:lower_half"): 0.0},
    "backend.md": {("echoes", "exact_match", "mean"): 0.5},
    "entry-points.md": {("calls", "quiet", "mean"): 0.0, ("calls", "loud", "mean"): 1.0},
    "filter.md": {("capitals", "capital", "mean"): 0.5},
    "loader.md": {("cards", "exact_match", "mean"): 0.5},
    "metric.md": {("rhymes", "rhyme", "mean"): 0.5},
    "preprocessor.md": {("reviews", "exact_match", "mean"): 0.5},
    "suite.md": {("sums", "exact_match", "mean"): 0.5, ("capitals", "exact_match", "mean"): 0.0},
    # A model that calls tools is not at hand: the page checks its config and shows the requests.
    "tool.md": {},
    "verdict-parser.md": {("essays", "judge_threshold", "mean"): 1.0},
}


def test_every_page_has_a_test_and_a_link() -> None:
    pages = {page.name for page in DOCS.glob("*.md")} - {"index.md"}
    assert pages == SCORES.keys()
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [page for page in pages if f"]({page})" not in index] == []
    assert "(plugins/index.md)" in (DOCS.parent / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", sorted(SCORES))
def test_a_page_works_as_pasted(page: str, tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, tmp_path)
    if page == "entry-points.md":
        install(tmp_path, monkeypatch)
    for arguments in commands(page):
        ended = gage(*arguments, *(["--run-id", "mine"] if arguments[0] == "run" else []))
        assert ended.code == 0, ended.err
    has_run = any(arguments[0] == "run" for arguments in commands(page))
    pages = {
        (task["task_id"], metric["metric_id"], metric["aggregation"]): next(iter(metric["raw_values"].values()))
        for task in (summary(tmp_path, "mine")["tasks"] if has_run else ())
        for metric in task["metrics"]
    }
    assert pages == SCORES[page]
    text = (DOCS / page).read_text(encoding="utf-8")
    assert all(f"{score:.3f}" in text for score in pages.values()), "the page states its scores"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip makes of a pyproject.toml that matters here: an importable module and the record of its entry points."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "top_level.txt").write_text(f"{project['name']}\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in points.items()) for group, points in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(folder)
    loading.distributions.cache_clear()
    keep(monkeypatch, *registry.ALL.values())
    for plugins in registry.ALL.values():
        monkeypatch.delitem(plugins.__dict__, "_entry_points", raising=False)
