"""What is wrong or without effect is said in a sentence that names it and what to do."""

from pathlib import Path

import orjson
import pytest

import gage_eval
from gage_eval.config.models import implied_loader
from tests.cli.conftest import Gage
from tests.support.workspace import write_config, write_rows


@pytest.mark.parametrize("command", [("validate", "mine.yaml"), ("run", "mine.yaml", "--inline"), ("show",)])
def test_a_misspelt_variable_is_named_with_the_nearest_one(
    gage: Gage, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("GAGE_EVAL_MAX_SAMPELS", "3")
    said = gage(*command)
    assert said.code == 0
    assert "GAGE_EVAL_MAX_SAMPELS, which is not a setting and has no effect. Did you mean 'GAGE_EVAL_MAX_SAMPLES'?" in (
        " ".join((said.out + said.err).split())
    )


def test_the_package_shows_its_functions() -> None:
    assert {"run", "open_run", "score", "Run", "ScoreResult", "__version__"} <= set(dir(gage_eval))


def test_a_list_of_files_is_one_dataset(gage: Gage, workspace: Path) -> None:
    write_rows(workspace, 4, name="more.jsonl", first=6)
    write_config(workspace, datasets=[{"dataset_id": "sums", "params": {"path": ["more.jsonl", "rows.jsonl"]}}])
    assert gage("run", "mine.yaml", "--inline", "--run-id", "both").code == 0
    rows = gage_eval.open_run("both").samples()["id"].to_pylist()
    assert rows == ["s6", "s7", "s8", "s9", *(f"s{i}" for i in range(6))]
    twice = [{"dataset_id": "sums", "params": {"path": ["rows.jsonl", "rows.jsonl"]}}]
    write_config(workspace, datasets=twice)
    assert "names 'rows.jsonl' twice" in gage("validate", "mine.yaml").err


@pytest.mark.parametrize(
    ("path", "loader"),
    [(["a.csv", "b.csv.gz"], "csv"), (["a.parquet"], "parquet"), (["a.json"], "json"), (["a.csv", "b.jsonl"], None)],
)
def test_the_files_of_a_list_share_a_loader(path: list[str], loader: str | None) -> None:
    assert implied_loader({"params": {"path": path}}) == loader


def test_a_missing_records_path_shows_the_keys_that_are_there(gage: Gage, workspace: Path) -> None:
    (workspace / "all.json").write_bytes(orjson.dumps({"data": {"rows": [{"question": "?", "answer": "!"}]}}))

    def refused(records_path: str) -> str:
        params = {"path": "all.json", "records_path": records_path}
        write_config(workspace, datasets=[{"dataset_id": "sums", "params": params}])
        return gage("run", "mine.yaml", "--inline").err

    assert "no list of records at 'data.row'. Keys at 'data': rows. Set records_path. Did you mean 'rows'?" in (
        refused("data.row")
    )
    assert "Keys at the top level: data. Set records_path." in refused("dta.rows")


def test_a_record_without_a_question_names_its_fields_and_the_setting(gage: Gage, workspace: Path) -> None:
    (workspace / "rows.jsonl").write_bytes(orjson.dumps({"query": "1 + 1?", "answer": "2"}))
    said = gage("run", "mine.yaml", "--inline").err
    assert "Fields here: query, answer. Set question_field to one of them" in said


def test_a_metric_of_gage_score_takes_filters(gage: Gage) -> None:
    assert gage("run", "mine.yaml", "--inline", "--run-id", "first").code == 0
    metric = "exact_match(filters=[{'name': 'first', 'steps': ['strip_thinking']}])"
    (found,) = gage("score", "first", "--metric", metric, "--json").json["metrics"]
    assert (found["metric_id"], found["filter"]) == ("exact_match", "first")
    plain = gage("score", "first", "--metric", "exact_match(filters='strip_thinking')", "--json").json["metrics"]
    assert plain[0]["filter"] == "strip_thinking"
