"""Programs of one's own data, really run: ten lines of config, and what people see of it."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from support.boxes import NEEDS_BOX
from viewer_client import page, viewer

import gage_eval
from gage_eval.cli.main import main

pytestmark = NEEDS_BOX

CONFIG = r"""
datasets: [{dataset_id: mine, params: {path: data.jsonl}}]
backends: [{backend_id: recorded, type: replay, config: {path: answers.jsonl, answer_field: output}}]
metrics: [execution_passed, tests_passed]
tasks:
  - task_id: code
    dataset_id: mine
    execution:
      {MODE, entry: metadata.entry, tests: metadata.tests, filters: [{regex: {pattern: '```\n([\s\S]*?)```'}}],
       limits: {cpu_s: 1.0, wall_s: 60.0}}
"""
ANSWERS = {
    "right": "def f(a):\n    return a + 1\n",
    "wrong": "def f(a):\n    print('<b>seen</b>')\n    return a\n",
    "endless": "def f(a):\n    while True:\n        pass\n",
    "broken": "def f(a:\n",
    "silent": None,
}


def write(folder: Path, setting: str = "mode: calls") -> None:
    tests = ["assert f(1) == 2", "assert f(2) == 3"]
    rows = [{"id": name, "question": "Write f.", "metadata": {"tests": tests, "entry": "f"}} for name in ANSWERS]
    said = [
        {"id": name, "output": "I cannot." if code is None else f"```\n{code}```"} for name, code in ANSWERS.items()
    ]
    for name, records in (("data", rows), ("answers", said)):
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    (folder / "code.yaml").write_text(CONFIG.replace("MODE", setting))


def gage(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code")
    write(folder)
    gage("run", str(folder / "code.yaml"), "--inline", "--store", str(folder / "store"), "--run-id", "first")
    return folder


def summary(folder: Path, run_id: str = "first") -> Any:
    return orjson.loads((folder / "store" / "runs" / run_id / "summary.json").read_bytes())["tasks"][0]


def test_unit_tests_of_ones_own_data_are_run_and_counted_beside_the_score(folder: Path) -> None:
    task = summary(folder)
    assert {name: count for name, count in task["executions"]["statuses"].items() if count} == {
        "passed": 1, "failed": 2, "timed_out": 1, "refused": 1,
    }  # fmt: skip
    assert (task["executions"]["mode"], task["executions"]["containment"]) == ("calls", "namespaces")
    assert task["executions"]["near_limit"] >= 1, "the endless program used more than half of its CPU time"
    assert [metric["raw_values"] for metric in task["metrics"]] == [{"score": 0.2}, {"score": 0.2}]
    assert [metric["unparsed"] for metric in task["metrics"]] == [1, 1]


def test_another_metric_runs_no_program_even_where_none_can_be_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gage_eval.box.programs.SlotExecutor.execute", None)
    gage("score", "first", "--metric", "tests_passed", "--store", str(folder / "store"), "--json")
    assert '"score":0.2' in capsys.readouterr().out.replace(" ", "")


def test_show_and_the_viewer_say_how_a_program_ended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gage("show", "first", "--sample", "wrong", "--store", str(folder / "store"))
    said = capsys.readouterr().out
    for text in ("program: failed", "[program]", "assert f(1) == 2", "[tests]", "<b>seen</b>", "CPU"):
        assert text in said
    gage("show", "first", "--sample", "wrong", "--store", str(folder / "store"), "--json")
    (shown,) = orjson.loads(capsys.readouterr().out)
    assert [(row["status"], row["reason"]) for row in shown["executions"]] == [("failed", "assertion")]
    with viewer(folder) as client:
        text = page(client, "/runs/first/sample?task=code&id=wrong")
        assert "&lt;b&gt;seen&lt;/b&gt;" in text
        assert "<b>seen</b>" not in text
        assert "containment namespaces" in text
        assert "1 timed out" in page(client, "/runs/first")


def test_executions_are_a_view_of_sql(folder: Path) -> None:
    pytest.importorskip("duckdb")
    assert len(gage_eval.sql("SELECT DISTINCT status FROM executions", store=str(folder / "store"))) == 4


@pytest.mark.parametrize(
    ("setting", "mark"),
    [
        ("mode: script", "forgeable, not attacked"),
        ("mode: calls, allow_unsafe: true", "not contained"),
        ("mode: calls, compat: official", "by wall time"),
    ],
)
def test_what_to_keep_in_mind_stands_beside_every_score(
    setting: str, mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, setting)
    gage("run", str(tmp_path / "code.yaml"), "--inline", "--store", str(tmp_path / "store"), "--run-id", "first")
    assert f"execution_passed ({mark})" in capsys.readouterr().out
    assert summary(tmp_path)["metrics"][0]["marks"] == [mark]
    assert mark in (tmp_path / "store" / "runs" / "first" / "report.html").read_text()
