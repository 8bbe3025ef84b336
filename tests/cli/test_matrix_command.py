"""Promises of gage matrix: the table on the screen, as CSV, as Markdown and as JSON."""

import csv
from pathlib import Path

import orjson
import pytest
import yaml

from tests.cli.conftest import Gage
from tests.support.workspace import write_config

COUNT = 100


@pytest.fixture
def matrix(workspace: Path) -> Path:
    """A matrix of two models, of which the first has more answers right."""
    rows = [{"id": f"s{n}", "question": f"{n} + 1 = ?", "answer": str(n + 1)} for n in range(COUNT)]
    (workspace / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    models = []
    for name, right in (("good", 90), ("bad", 40)):
        answers = [{"id": f"s{n}", "output": str(n + 1) if n < right else "no"} for n in range(COUNT)]
        (workspace / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in answers))
        models.append({"name": name, "options": {"overrides": [f"backends.model.config.path={name}.jsonl"]}})
    backend = {"backend_id": "model", "type": "replay", "config": {"path": "good.jsonl", "answer_field": "output"}}
    write_config(workspace, backends=[backend])
    file = workspace / "matrix.yaml"
    file.write_text(yaml.safe_dump({"rows": [{"config": "mine.yaml"}], "models": models}))
    return file


def test_the_matrix_is_written_as_table_and_figure(matrix: Path, gage: Gage) -> None:
    said = gage(
        "matrix", "matrix.yaml", *("--to", "table.csv", "--to", "table.md", "--to", "table.svg", "--site", "site")
    )
    assert said.code == 0
    assert "0.900 [0.826, 0.945] (1)" in said.out
    assert "0.400 [0.309, 0.498] (2)" in said.out
    with (matrix.parent / "table.csv").open(newline="") as file:
        good, bad = csv.DictReader(file)
    assert (good["model"], good["value"], good["best"], good["worst"]) == ("good", "0.9", "1", "1")
    assert (bad["row"], bad["task_id"], bad["n"], bad["best"]) == ("mine.yaml", "sums", "100", "2")
    assert (good["run"], bad["run"]) == ("matrix-1-mine-good", "matrix-1-mine-bad")
    assert good["run"] in said.out, "each cell names its run"
    page = (matrix.parent / "table.md").read_text(encoding="utf-8").splitlines()
    assert page[2] == "| task | metric | n | good | bad |"
    assert page[4].startswith("| mine.yaml sums | exact\\_match | 100 | 0.900 \\[0.826, 0.945\\] (1) |")
    assert any(good["run"] in line for line in page)
    assert ">0.900</text>" in (matrix.parent / "table.svg").read_text(encoding="utf-8")
    assert (matrix.parent / "site" / "index.html").is_file()
    exported = gage("export", good["run"], bad["run"], "--format", "site", "--to", "other").out
    assert Path(exported.strip()).name == "index.html"
    assert gage("export", good["run"], bad["run"]).code == 2
    assert (matrix.parent / "site" / "index.html").is_file()
    exported = gage("export", good["run"], bad["run"], "--format", "site", "--to", "other").out
    assert Path(exported.strip()).name == "index.html"
    assert gage("export", good["run"], bad["run"]).code == 2
    record = gage("matrix", "matrix.yaml", "--json").json
    assert [cell["model"] for cell in record["cells"]] == ["good", "bad"]
    assert [cell["run"] for cell in record["cells"]] == ["matrix-2-mine-good", "matrix-2-mine-bad"]
    assert [(standing["model"], standing["best"], standing["worst"]) for standing in record["standings"]] == [
        ("good", 1, 1),
        ("bad", 2, 2),
    ]


def test_an_unknown_format_is_refused_before_any_run(matrix: Path, gage: Gage) -> None:
    said = gage("matrix", "matrix.yaml", "--to", "table.docx")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert ".tex" in said.err
    assert gage("show", "--json").json == []


def test_a_cell_that_fails_is_told_and_leaves_the_table(matrix: Path, gage: Gage) -> None:
    (matrix.parent / "bad.jsonl").unlink()
    said = gage("matrix", "matrix.yaml", "--to", "table.csv")
    assert said.code == 1
    assert "0.900 [0.826, 0.945] (1)" in said.out
    assert "mine.yaml with bad failed:" in said.err
    assert "1 cell of 2 failed; the others are in the table." in said.err
    assert len((matrix.parent / "table.csv").read_text().splitlines()) == 2


def test_the_lines_of_the_error_of_a_cell_stay_lines(matrix: Path, gage: Gage) -> None:
    definition = yaml.safe_load(matrix.read_text())
    definition["models"][1]["options"] = {"overrides": ["tasks.sums.nope=1"]}
    matrix.write_text(yaml.safe_dump(definition))
    said = gage("matrix", "matrix.yaml")
    assert said.code == 1
    assert "\N{REPLACEMENT CHARACTER}" not in said.err
    assert "nope" in said.err
