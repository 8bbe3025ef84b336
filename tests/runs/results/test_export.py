"""Exports hold every sample with its results, in fixed columns, and leave nothing behind when they fail."""

import csv
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

import gage_eval
from gage_eval.base.errors import StoreError
from gage_eval.base.tables import SAMPLES
from gage_eval.cli.main import main
from gage_eval.data.sample.table import rows_of
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results import export as module
from gage_eval.runs.results.export import EXPORTED, LocalTarget, export, file_name
from gage_eval.runs.results.reading import RunReader
from tests.support.workspace import ROWS, write_config

TWO = [
    {"dataset_id": "sums", "params": {"path": "rows.jsonl"}},
    {"dataset_id": "more.sums", "params": {"path": "more.jsonl"}},
]


def run(here: Path, *kinds: str, run_id: str = "first") -> RunOutcome:
    write_config(here, datasets=TWO, export=list(kinds))
    return run_inline(RunOptions(config="mine.yaml", store="store", run_id=run_id))


def folder(here: Path) -> Path:
    return here / "store" / "runs" / "first"


def test_parquet_has_the_sample_columns_and_the_results_as_json(here: Path) -> None:
    run(here, "parquet")
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
    run(here, "jsonl", "parquet")
    first = orjson.loads((folder(here) / "samples.jsonl").read_bytes().splitlines()[0])
    assert first["data_tag"] == tags
    assert rows_of(pq.read_table(folder(here) / "samples.parquet").select(SAMPLES.arrow.names))[0]["data_tag"] == tags


def test_single_files_differ_also_where_capitals_do_not_count(here: Path) -> None:
    ids = ["q1", "Q1", "q2"]
    rows = ({"id": name, "question": "1 + 1 = ?", "answer": "2"} for name in ids)
    (here / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    run(here, "per_sample_json")
    files = list((folder(here) / "samples" / "sums").iterdir())
    assert len({file.name.casefold() for file in files}) == 3
    assert sorted(orjson.loads(file.read_bytes())["id"] for file in files) == sorted(ids)


def test_json_lines_and_single_files_hold_the_same_samples(here: Path) -> None:
    run(here, "jsonl", "per_sample_json")
    lines = [orjson.loads(line) for line in (folder(here) / "samples.jsonl").read_bytes().splitlines()]
    assert [line["id"] for line in lines] == [*(f"s{i}" for i in range(ROWS)), "s50", "s51", "s52"]
    for line in lines:
        task_id = line.pop("task_id")
        assert orjson.loads((folder(here) / "samples" / task_id / f"{line['id']}.json").read_bytes()) == line
    assert {"predict_result", "eval_result", "messages"} <= lines[0].keys()


def test_only_samples_that_were_asked_are_exported(here: Path) -> None:
    write_config(here, export=["parquet"])
    run_inline(RunOptions(config="mine.yaml", store="store", run_id="first", sample_ids=("s2", "s4")))
    assert pq.read_table(folder(here) / "samples.parquet")["id"].to_pylist() == ["s2", "s4"]


def test_an_export_replaces_the_one_before_and_leaves_nothing_beside_it(here: Path) -> None:
    write_config(here, datasets=TWO, export=["jsonl"])
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
    with pytest.raises(StoreError, match="the disk is gone"):
        run(here, "jsonl")
    assert {path.name for path in folder(here).iterdir()} == {
        "run.json", "summary.json", "events.jsonl", "report.html",
    }  # fmt: skip


@pytest.mark.parametrize("hostile", ["../../etc/passwd", "a/b", ".hidden", "", "x" * 200, "naïve", "a\x00b"])
def test_no_sample_id_leads_out_of_its_folder(hostile: str) -> None:
    name = file_name(hostile)
    assert name != hostile
    assert len(name) == 24
    assert name.isalnum()


def exported(here: Path) -> dict[str, dict[str, Any]]:
    """The exported samples by id."""
    lines = [orjson.loads(line) for line in (folder(here) / "samples.jsonl").read_bytes().splitlines()]
    return {line["id"]: line for line in lines}


def gage_export() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", "first", "--store", "store"])
    assert ended.value.code == 0


def compared(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry.get(name) for name in ("prediction", "reference")}


def test_scores_are_exported_with_what_was_compared_as_single_scores_have_it(here: Path) -> None:
    rows = [
        {"id": "one", "question": "1 + 1 = ?", "answer": "2"},
        {"id": "several", "question": "1 + 1 = ?", "references": ["two", "2"]},
        {
            "id": "own",
            "question": "1 + 1 = ?",
            "answer": "3",
            "metadata": {"gold": "2.0"},
            "eval_config": {"metrics": {"exact_match": {"label_field": "metadata.gold"}}},
        },
    ]
    (here / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    write_config(here, metrics=["exact_match", "docvqa_anls", "text_length"], export=["jsonl"])
    run_inline(RunOptions(config="mine.yaml", store="store", run_id="first"))
    samples = exported(here)
    results = {name: sample["eval_result"] for name, sample in samples.items()}
    shown = {name: scores["exact_match"][0]["metadata"] for name, scores in results.items()}
    assert shown["one"] == {"prediction": "2", "reference": "2"}
    assert shown["several"] == {"prediction": "2", "reference": ["two", "2"], "best_reference": "2"}
    assert shown["own"] == {"prediction": "2", "reference": "2.0"}
    assert "metadata" not in results["one"]["text_length"][0]
    for name, sample in samples.items():
        fields = {key: sample[key] for key in ("id", "references", "metadata", "eval_config") if key in sample}
        for metric in ("exact_match", "docvqa_anls"):
            alone = gage_eval.score(metric, sample=fields, model_output="2").metadata
            assert compared(alone) == compared(results[name][metric][0]["metadata"])
    # The texts are in no stored score row, where they would lie twice.
    stored = RunReader.open(Locations.at("store"), "first").task().scores["exact_match"].table()
    assert not any("prediction" in (text or "") for text in stored["metadata"].to_pylist())


def test_gage_export_writes_what_was_compared_and_works_when_the_config_does_not(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (here / "mine_metric.py").write_text(
        "from gage_eval.plugins import metric\n\n\n@metric('same')\n"
        "def same(prediction: str, reference: str) -> float:\n    return float(prediction == reference)\n"
    )
    write_config(here, metrics=[{"metric_id": "same", "implementation": "mine_metric.py:same"}])
    run_inline(RunOptions(config="mine.yaml", store="store", run_id="first"))
    gage_export()
    assert exported(here)["s1"]["eval_result"]["same"][0]["metadata"] == {"prediction": "2", "reference": "2"}
    (here / "mine_metric.py").unlink()
    gage_export()
    assert "metadata" not in exported(here)["s1"]["eval_result"]["same"][0]
    assert "come without prediction and reference" in caplog.text


def written(run_id: str, kind: str, to: str) -> Path:
    reader = RunReader.open(Locations.at("store"), run_id)
    return Path(to) / export(reader.tasks(), kind, LocalTarget.made(Path(to)), reader.stored.record)


def test_csv_has_one_line_per_sample_with_nested_values_as_json(here: Path) -> None:
    (here / "rows.jsonl").write_bytes(orjson.dumps({"id": "=1+1", "question": 'q, \n"r"', "answer": "2"}) + b"\n")
    run(here, "csv")
    with (folder(here) / "samples.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["task_id"] for row in rows] == ["sums"] + ["more.sums"] * 3
    assert rows[0]["id"] == "'=1+1", "a spreadsheet takes no id for a formula"
    assert orjson.loads(rows[0]["messages"])[0]["content"] == [{"type": "text", "text": 'q, \n"r"'}]
    assert orjson.loads(rows[0]["predict_result"])[0]["answer"] == "2"
    assert orjson.loads(rows[0]["eval_result"])["exact_match"][0]["values"] == {"score": 1}


def test_an_exported_sample_is_a_sample_that_can_be_evaluated_again(here: Path) -> None:
    run(here, "jsonl")
    (here / "rows.jsonl").write_bytes((folder(here) / "samples.jsonl").read_bytes())
    write_config(here)
    again = gage_eval.run("mine.yaml", store="store", run_id="again")
    assert again.summary.sample_count == ROWS + 3


def test_lm_eval_files_have_its_names_its_keys_and_the_numbers_of_the_summary(here: Path) -> None:
    filters = [
        {"name": "strict", "steps": [{"regex": {"pattern": r"is (\d)"}}]},
        {"name": "loose", "steps": [{"regex": {"pattern": r"(\d)"}}]},
    ]
    write_config(here, metrics=[{"metric_id": "exact_match", "filters": filters}, "text_length"], datasets=TWO)
    outcome = run_inline(RunOptions(config="mine.yaml", store="store", run_id="first"))
    out = written("first", "lm-eval", "out")
    (results,) = out.glob("*/results_*.json")
    stamp = results.stem.removeprefix("results_")
    assert {file.name for file in results.parent.iterdir()} == {
        results.name, f"samples_sums_{stamp}.jsonl", f"samples_more.sums_{stamp}.jsonl"
    }  # fmt: skip
    content = orjson.loads(results.read_bytes())
    assert (
        content["results"].keys() == content["configs"].keys() == content["n-samples"].keys() == {"sums", "more.sums"}
    )
    for task in outcome.summary.tasks:
        for metric in task.metrics:
            name = (
                metric.metric_id
                if metric.value_key in ("score", "length")
                else f"{metric.metric_id} {metric.value_key}"
            )
            key = f"{name},{metric.filter or 'none'}"
            assert content["results"][task.task_id][key] == metric.value
            assert content["results"][task.task_id][key.replace(",", "_stderr,")] == metric.stderr
    lines = [orjson.loads(line) for line in (results.parent / f"samples_sums_{stamp}.jsonl").read_bytes().splitlines()]
    assert [(line["doc_id"], line["filter"]) for line in lines[:3]] == [(0, "strict"), (0, "loose"), (0, "none")]
    assert len(lines) == 3 * ROWS
    loose = [line for line in lines if line["filter"] == "loose"]
    assert (
        sum(line["exact_match"] for line in loose) / ROWS == content["results"]["sums"]["exact_match,loose"] == 1 / ROWS
    )
    line_of_s1 = loose[1]
    assert line_of_s1["metrics"] == ["exact_match"]
    assert (line_of_s1["target"], line_of_s1["resps"], line_of_s1["filtered_resps"]) == ("2", [["2"]], ["2"])
    assert orjson.loads(line_of_s1["arguments"]["gen_args_0"]["arg_0"]) == [{"role": "user", "content": "1 + 1 = ?"}]


@pytest.mark.parametrize("kind", ["inspect", "lm-eval", "csv"])
def test_a_config_may_ask_for_any_export(here: Path, kind: str) -> None:
    run(here, kind)
    assert (folder(here) / {"csv": "samples.csv"}.get(kind, kind)).exists()
