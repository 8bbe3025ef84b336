"""Every page on a task does what it says when its files are saved and its commands are run in order."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from outsider.pages import TASKS, commands, write_files
from support.command import Command
from support.endpoint import mock_endpoint
from support.podman import import_image, missing, service
from support.runs import summary

# What the last command of a page prints.
ENDED = {
    "ci-gate.md": "candidate",
    "compare-prompts.md": "expert",
    "rag.md": "faithfulness",
    "cluster.md": "store",
    "own-data.md": "macro_f1",
}
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


# What each service sets for its jobs, and where it lists their commands.
WORKFLOWS = {
    "gate.yml": ({"GITHUB_STEP_SUMMARY": "summary.md"}, ("github.run_id", "github.run_attempt", "github.event.number")),
    ".gitlab-ci.yml": ({"CI_JOB_ID": "7", "ENDPOINT": ""}, ()),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "gate.yml")) for name in WORKFLOWS]
)
def test_the_commands_of_a_workflow_run_in_its_shell(name: str, tmp_path: Path, gage: Command) -> None:
    write_files("ci-gate.md", tmp_path, TASKS)
    workflow = yaml.safe_load((tmp_path / name).read_text(encoding="utf-8"))
    commands, expressions = WORKFLOWS[name]
    (job,) = workflow.get("jobs", {"gate": workflow.get("gate")}).values()
    steps = job.get("steps") or [{"run": line} for line in job["script"]]
    variables = {**job.get("env", {}), **job.get("variables", {}), **commands}
    for step in steps:
        variables |= step.get("env", {})
    for number, expression in enumerate(expressions):
        variables = {key: value.replace(f"${{{{ {expression} }}}}", str(number)) for key, value in variables.items()}
    for tool in ("pip", "gh"):
        (tmp_path / tool).write_text(f'#!/bin/sh\necho {tool} "$@" >> calls.txt\n', encoding="utf-8")
        (tmp_path / tool).chmod(0o755)
    with mock_endpoint(model="my-model") as endpoint:
        variables |= {"GAGE_EVAL_STORE": ".gage", "ENDPOINT": endpoint.url}
        path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, **variables, "PATH": path, "PREFECT_API_URL": ""}
        before = ["gage run mine.yaml --run-id current --inline", "gage baseline set main current"]
        for line in [*before, *(step["run"] for step in steps if "run" in step)]:
            ran = subprocess.run(
                ["bash", "-e", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, f"{line}: {ran.stderr}"
    written = (tmp_path / "gate.md").read_text(encoding="utf-8")
    assert "against baseline `main`" in written
    assert ElementTree.parse(tmp_path / "gate.xml").getroot()[0].attrib["failures"] == "0"
    if name == "gate.yml":
        assert (tmp_path / "summary.md").read_text(encoding="utf-8") == written
        assert "gh pr comment 2 --body-file gate.md" in (tmp_path / "calls.txt").read_text(encoding="utf-8")


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


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_the_example_of_another_language_works_as_pasted(
    tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files("code.md", tmp_path, TASKS.parent)
    with service() as (folder, engine):
        import_image(folder, "debian:12", ["sh", "cat", "mkdir"])
        monkeypatch.setenv("CONTAINER_HOST", f"unix://{engine.address}")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/no.sock")
        ended = gage("run", "scripts.yaml", "--run-id", "scripts")
        assert ended.code == 0, ended.err
    task = summary(tmp_path, "scripts")["tasks"][0]
    assert next(iter(task["metrics"][0]["raw_values"].values())) == 0.5
    assert task["executions"]["containment"] == "container"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_the_page_on_programs_works_as_pasted(tmp_path: Path, gage: Command) -> None:
    write_files("code.md", tmp_path, TASKS.parent)
    for arguments in commands("code.md", TASKS.parent):
        ended = gage(*arguments)
        assert ended.code == 0, f"{arguments}: {ended.err}"
    assert "1 of 2" in ended.out or "double" in ended.out
    metrics = {number["metric_id"]: number for number in summary(tmp_path, "first")["tasks"][0]["metrics"]}
    assert next(iter(metrics["execution_passed"]["raw_values"].values())) == 0.5
