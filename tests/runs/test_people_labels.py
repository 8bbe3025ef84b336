"""From a judged run to a corrected score: drawn answers, labels, and the run with them, which asks nothing."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from support.command import Command, command

from tests.support.workspace import JUDGED, write_config, write_rows

JUDGE = """
from pathlib import Path


class Judge:
    def generate(self, request):
        with Path("asked.txt").open("a") as file:
            file.write("x")
        return f"SCORE: {int(int(request['messages'][-1]['content'][1:]) % 4 > 0)}"
"""


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path, 60)
    (tmp_path / "judge.py").write_text(JUDGE)
    _write(tmp_path)
    return command(tmp_path, capsys, monkeypatch)


def _write(folder: Path, metric: str = "judge_threshold", **task: Any) -> None:
    judge = {
        "backend_id": "strict",
        "type": "custom_script",
        "config": {"file_path": "judge.py", "class_name": "Judge"},
    }
    write_config(
        folder,
        backends=[JUDGED["backends"][0], judge],
        role_adapters=JUDGED["role_adapters"],
        prompts=[{"prompt_id": "verdict", "template": "{{ sample.id }}"}],
        tasks=[{"task_id": "sums", "dataset_id": "sums", **task}],
        metrics=[metric],
    )


def test_drawn_answers_are_labelled_and_the_score_is_corrected(tmp_path: Path, gage: Command) -> None:
    assert gage("run", "mine.yaml", "--run-id", "first").code == 0
    asked = (tmp_path / "asked.txt").stat().st_size
    assert gage("labels", "suggest", "first", "-n", "20").code == 0
    rows = [orjson.loads(line) for line in (tmp_path / "labels.jsonl").read_bytes().splitlines()]
    assert len(rows) == 20
    assert all(0 < row["probability"] < 1 and row["label"] is None and row["question"] for row in rows)
    # Blind to the model and to the verdict.
    assert not {"model", "verdict", "score", "judge"} & {name for row in rows for name in row}
    assert gage("labels", "suggest", "first").code == 2
    # People accept half of what the judge accepts.
    labelled = [{**row, "label": int(int(row["sample_id"][1:]) % 4 > 1)} for row in rows]
    (tmp_path / "labels.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in labelled))
    _write(tmp_path, labels={"path": "labels.jsonl"})
    ended = gage("run", "mine.yaml", "--run-id", "second")
    assert ended.code == 0, ended.err
    assert "judge_threshold against 20 labels of people" in ended.out
    assert "Raw 0.750, corrected 0.5" in ended.out
    assert (tmp_path / "asked.txt").stat().st_size == asked
    report = next(tmp_path.rglob("second/report.html")).read_text()
    assert "labels of people" in report
    summary = orjson.loads(next(tmp_path.rglob("second/summary.json")).read_bytes())
    assert summary["tasks"][0]["calibration"]["method"] == "strata"


@pytest.mark.parametrize(
    ("line", "task", "metric", "said"),
    [
        ('{"sample_id": "s1", "label": 0.5}', {}, "judge_threshold", "0 or 1"),
        ('{"sample_id": "s1", "label": 11}', {"scale": [1, 10]}, "judge_score", "from 1 to 10"),
        ('{"sample_id": "s1", "label": "yes"}', {}, "judge_threshold", "not on the scale"),
        ('{"label": 1}', {}, "judge_threshold", "sample_id"),
        ('{"sample_id": "s1", "label": 1, "probability": 0}', {}, "judge_threshold", "above 0"),
        ("[", {}, "judge_threshold", "not JSON"),
        ("", {}, "judge_score", "no fixed scale"),
        ("", {"scale": [1, 10]}, "judge_threshold", "leave out 'scale'"),
        ("", {"metric": "exact_match"}, "judge_threshold", "reads a judge's verdicts"),
        ("", {"field": "metadata.human"}, "judge_threshold", "give 'path' or 'field'"),
    ],
)
def test_labels_that_do_not_fit_are_refused_before_anything_is_asked(
    tmp_path: Path, gage: Command, line: str, task: dict[str, Any], metric: str, said: str
) -> None:
    (tmp_path / "labels.jsonl").write_text(line)
    _write(tmp_path, metric, labels={"path": "labels.jsonl", **task})
    ended = gage("run", "mine.yaml")
    assert ended.code == 2
    assert said in ended.err
    assert not (tmp_path / "asked.txt").exists()


def test_labels_may_be_a_field_of_the_samples(tmp_path: Path, gage: Command) -> None:
    rows = [
        {"id": f"s{i}", "question": f"{i} + 1 = ?", "answer": str(i + 1), "metadata": {"human": i % 2}}
        for i in range(8)
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    _write(tmp_path, labels={"field": "metadata.human"})
    ended = gage("run", "mine.yaml")
    assert ended.code == 0, ended.err
    assert "against 8 labels of people" in ended.out
    assert "corrected 0.500" in ended.out
