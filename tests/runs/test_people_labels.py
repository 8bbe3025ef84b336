"""From a judged run to a corrected score: drawn answers, labels, and the run with them, which asks nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.command import Command, command

from tests.support.workspace import JUDGED, write_config, write_rows

JUDGE = """
from collections.abc import Callable
from pathlib import Path


class Judge:
    def generate(self, request):
        with Path("asked.txt").open("a") as file:
            file.write("x")
        sample_id, answer = request["messages"][-1]["content"].split()
        return f"SCORE: {int(int(sample_id[1:]) % 4 > 0 or answer == '3')}"
"""


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path, 60)
    (tmp_path / "judge.py").write_text(JUDGE)
    _write(tmp_path)
    return command(tmp_path, capsys, monkeypatch)


def _write(folder: Path, metric: str = "judge_threshold", answer: str = "2", **task: Any) -> None:
    judge = {
        "backend_id": "strict",
        "type": "custom_script",
        "config": {"file_path": "judge.py", "class_name": "Judge"},
    }
    write_config(
        folder,
        backends=[{**JUDGED["backends"][0], "config": {"answer": answer}}, judge],
        role_adapters=JUDGED["role_adapters"],
        prompts=[{"prompt_id": "verdict", "template": "{{ sample.id }} {{ model_answer }}"}],
        tasks=[{"task_id": "sums", "dataset_id": "sums", **task}],
        metrics=[metric],
    )


def test_labels_of_other_samples_are_refused_before_anything_is_asked(tmp_path: Path, gage: Command) -> None:
    (tmp_path / "labels.jsonl").write_bytes(b'{"sample_id": "other", "label": 1}\n')
    _write(tmp_path, labels={"path": "labels.jsonl"})
    refused = gage("run", "mine.yaml")
    assert refused.code == 2
    assert "none of the 1 labels" in refused.err
    assert "'other'" in refused.err
    assert not (tmp_path / "asked.txt").exists()
    # A few rows to try the config may be any.
    assert gage("run", "mine.yaml", "--max-samples", "3").code == 0


def test_drawn_answers_are_labelled_and_the_score_is_corrected(tmp_path: Path, gage: Command) -> None:
    assert gage("run", "mine.yaml", "--run-id", "first").code == 0
    size = (tmp_path / "asked.txt").stat().st_size
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
    assert (tmp_path / "asked.txt").stat().st_size == size
    assert "sums: judge against people  judge 0  judge 1" in ended.out
    assert "judge and people differ on s" in ended.out
    report = next(tmp_path.rglob("second/report.html")).read_text()
    assert "Judge against people" in report
    assert "labels of people" in report
    summary = orjson.loads(next(tmp_path.rglob("second/summary.json")).read_bytes())
    assert summary["tasks"][0]["calibration"]["method"] == "strata"


@pytest.mark.parametrize(
    ("line", "task", "metric", "said"),
    [
        ('{"sample_id": "s1", "label": 0.5}', {}, "judge_threshold", "0 or 1"),
        ('{"sample_id": "s1", "label": 11}', {"scale": [1, 10]}, "judge_score", "from 1 to 10"),
        ('{"sample_id": "s1", "label": "1"}', {}, "judge_threshold", 'the label "1" is not on the scale'),
        ('{"label": 1}', {}, "judge_threshold", "sample_id"),
        ('{"sample_id": "s1", "label": 1, "probability": 0}', {}, "judge_threshold", "above 0"),
        pytest.param(
            f'{{"sample_id": "s1", "label": 1, "probability": 1{"0" * 400}}}',
            {},
            "judge_threshold",
            "above 0",
            id="huge",
        ),
        ('{"sample_id": "s1", "label": 1, "replicate": -1}', {}, "judge_threshold", "from 0"),
        ('{"sample_id": "\\ud800", "label": 1}', {}, "judge_threshold", "line 1  not JSON"),
        ('{"label": 1}\n\n{"sample_id": "s1", "label": 2}', {}, "judge_threshold", "line 3  the label 2 is"),
        pytest.param("x\n" * 5_000, {}, "judge_threshold", "4,980 more lines", id="no labels"),
        ("[", {}, "judge_threshold", "not JSON"),
        ('{"task_id": "talks", "sample_id": "s1", "label": 1}', {}, "judge_threshold", 'such as "talks"'),
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


@pytest.mark.parametrize(("field", "said"), [("humane", "no sample has 'metadata.humane'"), ("human", '"yes"')])
def test_a_field_without_labels_or_with_others_is_refused_before_anything_is_asked(
    tmp_path: Path, gage: Command, field: str, said: str
) -> None:
    row = {"id": "s1", "question": "1 + 1 = ?", "answer": "2", "metadata": {"human": "yes"}}
    (tmp_path / "rows.jsonl").write_bytes(orjson.dumps(row) + b"\n")
    _write(tmp_path, labels={"field": f"metadata.{field}"})
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


def _label(file: Path, right: Callable[[int], bool]) -> None:
    rows = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    rows = [{**row, "label": int(right(int(row["sample_id"][1:])))} for row in rows]
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def test_labels_of_the_same_samples_correct_the_difference_of_two_runs(tmp_path: Path, gage: Command) -> None:
    write_rows(tmp_path, 200)

    def run(name: str, answer: str, **task: Any) -> None:
        _write(tmp_path, answer=answer, **task)
        assert gage("run", "mine.yaml", "--run-id", name).code == 0

    def compared(a: str, b: str) -> Any:
        (record,) = orjson.loads(gage("compare", a, b, "--json").out)
        return record["tasks"][0]

    # The judge accepts 3 of 4 answers of a, and each answer of b; people accept 3 of 4 of both.
    run("a", "2")
    run("b", "3")
    assert "corrected_difference" not in compared("a", "b")
    drawn = gage("labels", "suggest", "a", "b", "-n", "50")
    assert drawn.code == 0, drawn.err
    assert "gage compare a b --metric judge_threshold" in drawn.out
    left, right = tmp_path / "labels-1.jsonl", tmp_path / "labels-2.jsonl"
    ids = [[orjson.loads(line)["sample_id"] for line in file.read_bytes().splitlines()] for file in (left, right)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 50
    _label(left, lambda number: number % 4 > 0)
    _label(right, lambda number: number % 4 < 3)
    run("a2", "2", labels={"path": left.name})
    run("b2", "3", labels={"path": right.name})
    task = compared("a2", "b2")
    assert task["difference"] == 0.25
    assert (task["corrected_labels"], task["corrected_why_not"]) == (50, None)
    assert task["corrected_ci_low"] < 0 < task["corrected_ci_high"]
    said = gage("compare", "a2", "b2").out
    assert "corrected by labels of 50 samples" in said
    assert "decide" in said
    assert "only one run" in compared("a", "b2")["corrected_why_not"]

    # A larger draw goes on from the labels that are there.
    more = gage("labels", "suggest", "a2", "b2", "-n", "80", "--to", "more.jsonl")
    assert more.code == 0, more.err
    assert "would not decide" in more.out
    rows = [orjson.loads(line) for line in (tmp_path / "more-1.jsonl").read_bytes().splitlines()]
    assert [row["sample_id"] for row in rows][:50] == ids[0]
    assert [row["label"] is None for row in rows] == [False] * 50 + [True] * 30

    # One model's labels say nothing of the other's answers, and answers left out spoil the draw.
    run("b3", "3", labels={"path": left.name})
    assert "same labels" in compared("a2", "b3")["corrected_why_not"]
    (tmp_path / "equal.jsonl").write_bytes(left.read_bytes())
    run("b5", "3", labels={"path": "equal.jsonl"})
    assert compared("a2", "b5")["corrected_why_not"] is None, "people may say the same of both models"
    first, *others = right.read_bytes().splitlines(keepends=True)
    right.write_bytes(b"".join([orjson.dumps({**orjson.loads(first), "label": None}) + b"\n", *others]))
    run("b4", "3", labels={"path": right.name})
    assert "left out" in compared("a2", "b4")["corrected_why_not"]
