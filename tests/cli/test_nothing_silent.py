"""What is wrong or without effect is said in a sentence that names it and what to do."""

import importlib.util
from pathlib import Path

import orjson
import pandas as pd
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
    (scored,) = gage("score", "first", "--metric", metric, "--json").json["metrics"]
    assert (scored["metric_id"], scored["filter"]) == ("exact_match", "first")
    plain = gage("score", "first", "--metric", "exact_match(filters='strip_thinking')", "--json").json["metrics"]
    assert plain[0]["filter"] == "strip_thinking"


def config_problems(gage: Gage, workspace: Path, metric: dict[str, object] | str, **task: object) -> str:
    tasks = [{"task_id": "sums", "dataset_id": "sums", **task}]
    write_config(workspace, metrics=[metric], tasks=tasks)
    said = gage("validate", "mine.yaml")
    assert said.code in (0, 2)
    assert (said.code == 2) == bool(said.err)
    return " ".join(said.err.split())


def test_validate_names_a_field_that_no_sample_has(gage: Gage, workspace: Path) -> None:
    lacking = {"metric_id": "exact_match", "params": {"label_field": "sample.lable"}}
    said = config_problems(gage, workspace, lacking)
    assert "task 'sums': metric 'exact_match': label_field is sample.lable, which none of the first 6 samples" in said
    assert "Did you mean 'label'?" in said
    assert config_problems(gage, workspace, {**lacking, "on_missing_field": "ignore"}) == ""
    assert (
        config_problems(gage, workspace, {"metric_id": "exact_match", "params": {**lacking["params"], "default": 0}})
        == ""
    )
    assert "a slice is data_tag.topic, which none" in (
        config_problems(gage, workspace, {"metric_id": "exact_match", "slices": ["data_tag.topic"]})
    )
    assert "cluster_field is metadata.passage, which none" in (
        config_problems(gage, workspace, {"metric_id": "exact_match", "cluster_field": "metadata.passage"})
    )
    assert config_problems(gage, workspace, "exact_match") == ""


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_validate_reads_the_first_rows_of_every_kind_of_local_file(gage: Gage, workspace: Path, suffix: str) -> None:
    frame = pd.DataFrame([{"question": f"{i}?", "answer": str(i)} for i in range(300)])
    file = workspace / f"rows.{suffix}"
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet}.get(suffix)
    if write is None:
        frame.to_json(file, orient="records")
    else:
        write(file, index=False)
    dataset = {"dataset_id": "sums", "params": {"path": file.name}}
    metric = {"metric_id": "exact_match", "params": {"label_field": "metadata.gold"}}
    write_config(workspace, datasets=[dataset], metrics=[metric])
    assert "none of the first 200 samples of dataset 'sums' has" in " ".join(gage("validate", "mine.yaml").err.split())


def test_validate_knows_what_requests_of_a_mode_bring(gage: Gage, workspace: Path) -> None:
    assert "metric 'acc' compares log-likelihoods, which chat requests do not give. Set mode: likelihood" in (
        config_problems(gage, workspace, "acc")
    )
    said = config_problems(gage, workspace, "judge_threshold")
    assert "metric 'judge_threshold' reads a judge's verdicts, and the task has no judge" in said


def test_a_metric_without_its_mode_is_refused_before_anything_is_asked(gage: Gage, workspace: Path) -> None:
    write_config(workspace, metrics=["acc"])
    ended = gage("run", "mine.yaml", "--inline")
    assert ended.code == 2
    assert "Set mode: likelihood" in ended.err


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "json", "parquet"])
def test_rejects_of_several_files_name_the_file_and_its_line(gage: Gage, workspace: Path, suffix: str) -> None:
    def write(name: str, rows: list[dict[str, str]]) -> None:
        frame, file = pd.DataFrame(rows), workspace / f"{name}.{suffix}"
        {
            "csv": lambda: frame.to_csv(file, index=False),
            "parquet": lambda: frame.to_parquet(file, index=False),
            "json": lambda: frame.to_json(file, orient="records"),
            "jsonl": lambda: frame.to_json(file, orient="records", lines=True),
        }[suffix]()

    def row(name: str, solution: str = "\\boxed{2}") -> dict[str, str]:
        return {"id": name, "problem": "1 + 1?", "solution": solution}

    write("a", [row("a0"), row("a1", "two")])
    write("b", [row("b0"), row("b1"), row("b2", "two")])
    params = {"path": f"?.{suffix}", "on_reject": "skip", "preprocess": "math"}
    write_config(workspace, datasets=[{"dataset_id": "sums", "params": params}])
    ran = gage("run", "mine.yaml", "--inline", "--run-id", "some")
    assert ran.code == 0, ran.err
    # A header is a line, too.
    first, last = (3, 4) if suffix == "csv" else (2, 3)
    said = " ".join(ran.out.split())
    places = f"a.{suffix} line {first}, b.{suffix} line {last}"
    assert f"2 of 5 records were rejected and are not scored ({places}: " in said
    rows = gage_eval.open_run("some").rejects()
    assert [(row.file, row.line) for row in rows] == [(f"a.{suffix}", first), (f"b.{suffix}", last)]
    assert f"b.{suffix} line {last}" in (workspace / ".gage/runs/some/report.html").read_text(encoding="utf-8")
    write("b", [row("b0"), row("a0")])
    ended = gage("run", "mine.yaml", "--inline")
    assert ended.code == 2
    first, last = (2, 3) if suffix == "csv" else (1, 2)
    assert f"line {first} of a.{suffix} and line {last} of b.{suffix} have the same id" in ended.err


def test_a_run_names_slices_and_numbers_that_no_answer_has(gage: Gage, workspace: Path) -> None:
    own = "from gage_eval.plugins import metric\n\n\n@metric('own', value=('found', 'lost'))\ndef own(prediction):\n"
    (workspace / "own.py").write_text(f"{own}    return {{'found': 1.0}}\n")
    metrics = [{"metric_id": "exact_match", "slices": ["metadata.topic"]}, "own.py:own"]
    write_config(workspace, metrics=metrics)
    ended = gage("run", "mine.yaml", "--inline", "--run-id", "some")
    assert ended.code == 0, ended.err
    for sentence in (
        "sums: no sample has metadata.topic, so there are no slices by it.",
        "sums: own lost has no value: the metric gave none of the answers one.",
    ):
        assert sentence in " ".join(ended.out.split())
        assert sentence in (workspace / ".gage" / "runs" / "some" / "report.html").read_text(encoding="utf-8")
    (workspace / "own.py").write_text(f"{own}    return {{}}\n")
    ended = gage("run", "mine.yaml", "--inline")
    assert ended.code == 1
    assert "scored none of the 6 answers" in ended.err


@pytest.mark.parametrize(
    ("backend", "library"), [("vllm", "vllm"), ("vllm_native", "vllm"), ("vlm_transformers", "transformers")]
)
def test_validate_names_an_engine_that_is_not_installed(
    gage: Gage, workspace: Path, monkeypatch: pytest.MonkeyPatch, backend: str, library: str
) -> None:
    (workspace / "model").mkdir()
    (workspace / "model" / "config.json").write_text("{}")
    known = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == library else known(name, *more)
    )
    config = {"model_path": "model"}
    write_config(workspace, backends=[{"backend_id": "model", "type": backend, "config": config}])
    said = " ".join(gage("validate", "mine.yaml").err.split())
    assert f"backend {backend} needs {library}, which is not installed. Install" in said
    # Another environment, which holds nothing yet.
    bare = workspace / "bare"
    (bare / "bin").mkdir(parents=True)
    (bare / "bin" / "python").write_text("")
    (bare / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    write_config(
        workspace,
        backends=[{"backend_id": "model", "type": backend, "config": {**config, "python": "bare/bin/python"}}],
    )
    assert f"backend {backend} needs {library}, which is not installed." in " ".join(
        gage("validate", "mine.yaml").err.split()
    )
    (bare / "lib" / "python3.11" / "site-packages" / f"{library}-1.0.dist-info").mkdir(parents=True)
    assert gage("validate", "mine.yaml").code == 0


def test_a_label_field_that_exists_nowhere_fails_the_run_and_the_scores_stay(gage: Gage, workspace: Path) -> None:
    write_config(workspace, metrics=[{"metric_id": "exact_match", "params": {"label_field": "metadata.gold"}}])
    ended = gage("run", "mine.yaml", "--inline", "--run-id", "lost")
    assert ended.code == 1
    assert "metric exact_match scored none of the 6 answers of task 'sums'" in ended.err
    assert "point the metric at a field that the samples have" in ended.err
    assert gage("resume", "lost", "--inline").code == 1, "nothing is different"
    write_config(workspace)
    assert gage("run", "mine.yaml", "--inline", "--json").json["run"]["sent"] == 0


def test_a_resumed_run_says_that_its_data_changed(gage: Gage, workspace: Path) -> None:
    write_config(workspace)
    assert gage("run", "mine.yaml", "--inline", "--run-id", "first").code == 0
    again = gage("resume", "first", "--inline")
    assert "data of task" not in again.out + again.err
    write_rows(workspace, 7)
    changed = gage("resume", "first", "--inline")
    said = " ".join((changed.out + changed.err).split())
    assert "the data of task 'sums' are not those that the run began with" in said
    assert len(gage_eval.open_run("first").samples()) == 7


def test_rejected_rows_are_told_everywhere_with_place_and_reason(gage: Gage, workspace: Path) -> None:
    with (workspace / "rows.jsonl").open("ab") as file:
        file.write(b'7\n{"id": "pic", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": '
                   b'{"url": "gone.png"}}]}]}\n')  # fmt: skip
    params = {"path": "rows.jsonl", "on_reject": "skip"}
    write_config(workspace, datasets=[{"dataset_id": "sums", "params": params}])
    ran = gage("run", "mine.yaml", "--inline", "--run-id", "some")
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert "dataset 'sums': 1 of 8 records were rejected and are not scored (line 7: the record is a number" in said
    assert "dataset 'sums': 1 of 7 samples cannot be prepared and are not scored" in said
    assert "gage show some --rejects lists them." in said
    folder = workspace / ".gage" / "runs" / "some"
    assert "line 7: the record is a number" in (folder / "events.jsonl").read_text()
    report = (folder / "report.html").read_text()
    assert "line 7: the record is a number" in report
    assert "2 rejected" in report
    shown = gage("show", "some", "--rejects")
    first, second = shown.out.splitlines()
    assert first.startswith("sums  standardize  rows.jsonl line 7: the record is a number")
    assert second.startswith("sums  preprocess  rows.jsonl line 8 (pic): ")
    rows = gage_eval.open_run("some").rejects()
    assert [(row.stage, row.file, row.line, row.sample_id) for row in rows] == [
        ("standardize", "rows.jsonl", 7, None), ("preprocess", "rows.jsonl", 8, "pic"),
    ]  # fmt: skip
    assert [row["line"] for row in gage("show", "some", "--rejects", "--json").json] == [7, 8]
    assert gage("show", "--rejects").code == 2


@pytest.mark.parametrize(("option", "value"), [("--task", "t"), ("--sample", "s0"), ("--against", "other")])
def test_gage_view_shows_nothing_of_no_run(gage: Gage, option: str, value: str) -> None:
    said = gage("view", option, value)
    assert said.code == 2
    assert said.err == f"{option} needs a run: gage view RUN {option} {value}\n"
