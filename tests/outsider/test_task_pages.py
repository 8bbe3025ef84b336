"""Every page on a task does what it says when its files are saved and its commands are run in order."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from outsider.pages import TASKS, commands, write_files
from support.command import Command
from support.endpoint import mock_endpoint
from support.runs import summary

# What the last command of a page prints.
ENDED = {"ci-gate.md": "candidate", "compare-prompts.md": "expert", "rag.md": "faithfulness", "cluster.md": "store"}
# Where the pages have a model; and what every answer begins with, for the page where the model is also the judge.
ENDPOINT = "http://127.0.0.1:8000/v1"
HERE = {"my-judge": "my-model"}
VERDICT = {"rag.md": "SCORE: 1/1\n"}


def test_every_page_has_a_test_and_a_link() -> None:
    pages = {page.name for page in TASKS.glob("*.md")}
    assert pages == ENDED.keys()
    index = (TASKS.parent / "index.md").read_text(encoding="utf-8")
    assert [page for page in pages if f"](tasks/{page})" not in index] == []


@pytest.mark.parametrize("page", sorted(ENDED))
def test_a_page_works_as_pasted(page: str, tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, tmp_path, TASKS)
    with mock_endpoint(model="my-model", thinking=VERDICT.get(page, "")) as endpoint:
        monkeypatch.setenv("ENDPOINT", endpoint.url)
        for arguments in commands(page, TASKS):
            ended = gage(*(HERE.get(text, endpoint.url if text == ENDPOINT else text) for text in arguments))
            assert ended.code == 0, f"{arguments}: {ended.err}"
    assert ENDED[page] in ended.out


def test_the_notebook_runs_from_top_to_bottom_and_tells_the_models_apart(tmp_path: Path) -> None:
    notebook = json.loads((TASKS.parent / "first-evaluation.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code"), "saved with outputs"
    script = tmp_path / "notebook.py"
    script.write_text("\n".join([*cells, "assert large._repr_html_(), 'no table'", "print(difference.to_string())"]))
    ran = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Marlowe" in ran.stdout
    assert "0.25" in ran.stdout


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_the_page_on_programs_works_as_pasted(tmp_path: Path, gage: Command) -> None:
    write_files("code.md", tmp_path, TASKS.parent)
    for arguments in commands("code.md", TASKS.parent):
        ended = gage(*arguments)
        assert ended.code == 0, f"{arguments}: {ended.err}"
    assert "1 of 2" in ended.out or "double" in ended.out
    metrics = {number["metric_id"]: number for number in summary(tmp_path, "first")["tasks"][0]["metrics"]}
    assert next(iter(metrics["execution_passed"]["raw_values"].values())) == 0.5
