"""Exports hold every sample with its results, in fixed columns, and leave nothing behind when they fail."""

from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.runs import export as module
from gage_eval.runs.export import EXPORTED, file_name
from gage_eval.sample.table import rows_of
from gage_eval.tables import SAMPLES
from tests.support.workspace import ROWS, write_config, write_rows

TWO = [
    {"dataset_id": "sums", "params": {"path": "rows.jsonl"}},
    {"dataset_id": "more.sums", "params": {"path": "more.jsonl"}},
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_rows(tmp_path, 3, name="more.jsonl", first=50)
    return tmp_path


def run(here: Path, *kinds: str, run_id: str = "first") -> RunOutcome:
    write_config(here, datasets=TWO, export=list(kinds))
    return run_inline(RunOptions(config="mine.yaml", store="store", run_id=run_id))


def folder(here: Path) -> Path:
    return here / "store" / "runs" / "first"


def test_parquet_has_the_sample_columns_and_the_results_as_json(here: Path) -> None:
    run(here, "samples_parquet")
    table = pq.read_table(folder(here) / "samples.parquet")
    assert table.schema.equals(EXPORTED)
    assert table.num_rows == ROWS + 3
    assert table["task_id"].to_pylist() == ["sums"] * ROWS + ["more.sums"] * 3
    assert rows_of(table.select(SAMPLES.arrow.names))[1]["label"] == "2"
    assert orjson.loads(table["predict_result"][1].as_py())[0]["answer"] == "2"
    (entry,) = orjson.loads(table["eval_result"][1].as_py())["exact_match"]
    assert (entry["status"], entry["values"]) == ("scored", {"score": 1})


def test_data_tags_are_exported_as_they_came(here: Path) -> None:
    tags = {"topics": ["a", 2], "hard": True, "level": 1.5, "of": {"b": None}, "none": None, "count": 7}
    row = {"id": "s0", "question": "1 + 1 = ?", "answer": "2", "data_tag": tags}
    (here / "rows.jsonl").write_bytes(orjson.dumps(row) + b"\n")
    run(here, "samples_jsonl", "samples_parquet")
    first = orjson.loads((folder(here) / "samples.jsonl").read_bytes().splitlines()[0])
    assert first["data_tag"] == tags
    assert rows_of(pq.read_table(folder(here) / "samples.parquet").select(SAMPLES.arrow.names))[0]["data_tag"] == tags


def test_json_lines_and_single_files_hold_the_same_samples(here: Path) -> None:
    run(here, "samples_jsonl", "per_sample_json")
    lines = [orjson.loads(line) for line in (folder(here) / "samples.jsonl").read_bytes().splitlines()]
    assert [line["id"] for line in lines] == [*(f"s{i}" for i in range(ROWS)), "s50", "s51", "s52"]
    for line in lines:
        task_id = line.pop("task_id")
        assert orjson.loads((folder(here) / "samples" / task_id / f"{line['id']}.json").read_bytes()) == line
    assert {"predict_result", "eval_result", "messages"} <= lines[0].keys()


def test_only_samples_that_were_asked_are_exported(here: Path) -> None:
    write_config(here, export=["samples_parquet"])
    run_inline(RunOptions(config="mine.yaml", store="store", run_id="first", sample_ids=("s2", "s4")))
    assert pq.read_table(folder(here) / "samples.parquet")["id"].to_pylist() == ["s2", "s4"]


def test_an_export_replaces_the_one_before_and_leaves_nothing_beside_it(here: Path) -> None:
    write_config(here, datasets=TWO, export=["samples_jsonl"])
    for resume in (False, True):
        run_inline(RunOptions(config="mine.yaml", store="store", run_id="first", resume=resume))
    names = {path.name for path in folder(here).iterdir()}
    assert names == {"run.json", "summary.json", "events.jsonl", "report.html", "samples.jsonl"}


def test_a_failed_export_puts_no_half_file_in_place(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = module.sample_records

    def torn(*arguments: object) -> object:
        yield next(iter(whole(*arguments)))  # type: ignore[arg-type]
        raise OSError("the disk is gone")

    monkeypatch.setattr(module, "sample_records", torn)
    with pytest.raises(OSError, match="the disk is gone"):
        run(here, "samples_jsonl")
    assert {path.name for path in folder(here).iterdir()} == {
        "run.json", "summary.json", "events.jsonl", "report.html",
    }  # fmt: skip


@pytest.mark.parametrize("hostile", ["../../etc/passwd", "a/b", ".hidden", "", "x" * 200, "naïve", "a\x00b"])
def test_no_sample_id_leads_out_of_its_folder(hostile: str) -> None:
    name = file_name(hostile)
    assert name != hostile
    assert len(name) == 24
    assert name.isalnum()
