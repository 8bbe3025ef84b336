"""Promises of what the report shows of a run: samples of each kind, as sent, and only little is read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from gage_eval.base.errors import GageError
from gage_eval.report.details import TaskDetails
from gage_eval.report.pages import kind_shares
from gage_eval.report.sample_view import OF_SAMPLE, Kind, SampleView
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs import publish as publishing
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.report_details import CARDS, task_details
from gage_eval.store import Artifact, parquet
from tests.support.workspace import JUDGED, ROWS, write_config, write_rows

HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path)
    return tmp_path


def page(folder: Path) -> str:
    return (folder / "runs" / "first" / "report.html").read_text(encoding="utf-8")


def run(**options: Any) -> TaskReader:
    run_inline(RunOptions(config="mine.yaml", store="store", output_dir="runs", run_id="first", **options))
    return RunReader.open(Locations.at("store", "runs"), "first").task()


def cards(details: TaskDetails, kind: Kind) -> Sequence[SampleView]:
    return next(entry.cards for entry in details.kinds if entry.kind == kind)


def test_right_and_wrong_samples_are_shown_with_the_prompt_as_sent(here: Path) -> None:
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "prompt_id": "ask"}
    prompt = {"prompt_id": "ask", "template": "Add: {{ sample.messages[0].content[0].text }}"}
    write_config(here, prompts=[prompt], role_adapters=[adapter])
    details = task_details(run())
    assert details.counts == {"wrong": ROWS - 1, "right": 1}
    (right,) = cards(details, "right")
    assert (right.sample_id, right.answer, right.expected, right.form != OF_SAMPLE) == ("s1", "2", "2", True)
    assert [message.text for message in right.messages] == ["Add: 1 + 1 = ?"]
    assert details.sampling["temperature"] == 0
    assert details.lengths == (), "all answers are of one length"
    for shown in ("Add: 1 + 1 = ?", "s1", "temperature"):
        assert shown in page(here)


def test_the_judges_words_are_on_the_card(here: Path) -> None:
    write_config(here, **JUDGED)
    (right,) = cards(task_details(run()), "right")
    assert [judgment.words for judgment in right.judgments] == ["SCORE: 3"]


def test_at_most_ten_of_each_kind_are_read_from_a_large_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(here, 10_000)
    read: list[int] = []
    rows_of_part = TaskReader.rows_of_part

    def watched(task: TaskReader, part: int, wanted: Sequence[int]) -> Any:
        read.append(len(wanted))
        return rows_of_part(task, part, wanted)

    monkeypatch.setattr(TaskReader, "rows_of_part", watched)
    details = task_details(run())
    assert (details.answers, details.complete, details.counts["wrong"]) == (10_000, True, 9_999)
    assert len(cards(details, "wrong")) == CARDS
    assert read == [CARDS + 1] * 2, "once for the run's own report, once here"


def test_of_the_parts_with_cards_only_the_rows_near_them_are_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 16 * 1024)
    write_rows(here, 4000)
    task = run()
    read: dict[str, int] = {}
    artifact_read = Artifact.read

    def watched(source: Artifact, part: int, columns: Sequence[str] | None = None, **only: Any) -> pa.Table:
        table = artifact_read(source, part, columns, **only)
        if columns is None:
            name = source.manifest.table
            read[name] = read.get(name, 0) + table.num_rows
        return table

    monkeypatch.setattr(Artifact, "read", watched)
    details = task_details(task)
    (right,) = cards(details, "right")
    assert right.form != OF_SAMPLE
    assert {"samples", "prepared", "responses"} <= read.keys()
    assert max(read.values()) <= 1024, read


def test_every_failure_has_its_cards_and_its_reason(here: Path) -> None:
    answers = [
        {"id": "s0", "answer": "1"},
        {"id": "s1", "answer": "no idea"},
        {"id": "s2", "answer": "3"},
        {"id": "s3", "answer": "5"},
    ]
    (here / "answers.jsonl").write_bytes(b"".join(orjson.dumps(answer) + b"\n" for answer in answers))
    write_config(
        here,
        datasets=[{"dataset_id": "sums", "params": {"path": "rows.jsonl", "on_reject": "skip"}}],
        backends=[{"backend_id": "model", "type": "replay", "config": {
            "path": "answers.jsonl", "id_field": "id", "answer_field": "answer", "on_missing": "error"}}],
        metrics=["numeric_match"],
    )  # fmt: skip
    rows = (here / "rows.jsonl").read_bytes().splitlines()
    (here / "rows.jsonl").write_bytes(b"\n".join([*rows[:4], b'{"id": "broken"}', b""]))
    details = task_details(run())
    assert {entry.kind: entry.count for entry in details.kinds} == {"unparsed": 1, "wrong": 1, "right": 2}
    (unparsed,) = cards(details, "unparsed")
    assert (unparsed.sample_id, unparsed.answer, unparsed.extracted) == ("s1", "no idea", None)
    reasons = {reason.where: (reason.text, reason.count) for reason in details.reasons}
    assert reasons["numeric_match"] == ("unparsed answer", 1)
    assert "there is no question" in reasons["rejected in standardize"][0]
    assert "there is no question" in page(here)


def test_hostile_data_stays_text_in_the_run_page(here: Path) -> None:
    rows = [{"id": HOSTILE, "question": HOSTILE, "answer": HOSTILE, "metadata": {"topic": HOSTILE}}]
    (here / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    write_config(here, backends=[{"backend_id": "model", "type": "dummy", "config": {"answer": HOSTILE}}])
    run()
    text = page(here)
    assert "<script" not in text
    assert "<img" not in text
    assert text.count("&lt;img src=x onerror=alert(1)&gt;{{ 7*7 }}") >= 4


def test_the_cost_of_the_answers_is_in_the_head(here: Path) -> None:
    priced = {"answer": "2", "input_price": 1_000_000.0, "output_price": 1_000_000.0}
    write_config(here, backends=[{"backend_id": "model", "type": "dummy", "config": priced}])
    total = sum(
        row[name] for row in run().response_table().to_pylist() for name in ("prompt_tokens", "completion_tokens")
    )
    assert total > 0
    assert f"cost {total:.4g} ·" in page(here)


def test_a_report_that_fails_does_not_lose_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> str:
        raise RuntimeError("no template")

    monkeypatch.setattr(publishing, "report_html", broken)
    run()
    folder = here / "runs" / "first"
    assert orjson.loads((folder / "run.json").read_bytes())["status"] == "completed"
    assert (folder / "summary.json").is_file()
    assert b"report.html could not be written (no template)" in (folder / "events.jsonl").read_bytes()


def test_a_full_disk_at_the_report_does_not_lose_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = RunFolder.write

    def full(folder: RunFolder, name: str, data: bytes) -> None:
        if name == "report.html":
            raise GageError("no space left")
        write(folder, name, data)

    monkeypatch.setattr(RunFolder, "write", full)
    run()
    assert b"no space left" in (here / "runs" / "first" / "events.jsonl").read_bytes()


RATED = """
def rated(prediction: str, reference: str) -> float:
    return {"1": 3.0, "3": 9.0}.get(reference, 7.0)
"""


def test_ratings_are_counted_once_and_their_axis_has_no_gap(here: Path) -> None:
    (here / "own.py").write_text(RATED)
    write_config(here, metrics=[{"metric_id": "rated", "implementation": "own.py:rated"}])
    details = task_details(run())
    assert [(column.label, column.count) for column in details.distribution] == [
        ("3", 1), ("4", 0), ("5", 0), ("6", 0), ("7", 4), ("8", 0), ("9", 1),
    ]  # fmt: skip
    assert kind_shares(details.counts) == [("scored", "plain", 6.0)]
