"""plan and show: what stands in the store and in run folders, in words."""

import re
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from gage_eval.base.processes import born
from gage_eval.runs.record import ConfigRecord, RunRecord, StageRecord
from tests.cli.conftest import Gage
from tests.support.workspace import JUDGED, ROWS, write_config


def test_a_plan_is_a_table_of_stage_key_state_and_why(gage: Gage) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "calm-heron")
    lines = gage("plan", "mine.yaml", "--set", "backends[0].config.answer=other").out.splitlines()
    assert lines[0].split() == ["stage", "key", "state", "why"]
    assert re.fullmatch(r"load +[0-9a-f]{8} +cached", lines[1])
    infer = next(line for line in lines if line.startswith("infer"))
    assert infer.endswith(f"backend config.answer changed since run calm-heron; {ROWS} requests")
    assert lines[-2].split() == ["report", "–", "after", "infer"]
    assert lines[-1].startswith(f"sums exact_match: {ROWS} rows are too few to say what the gate could find; a loss of")


def test_a_plan_as_json_has_keys_and_requests(gage: Gage) -> None:
    gage("preview", "mine.yaml")
    stages = {stage["stage"]: stage for stage in gage("plan", "mine.yaml", "--json").json["stages"]}
    assert stages["infer"]["to_send"] == stages["infer"]["responses"] == ROWS
    assert len(stages["infer"]["key"]) == 64


def test_a_plan_of_a_config_that_is_not_there_is_bad_input(gage: Gage) -> None:
    said = gage("plan", "mien.yaml")
    assert (said.code, said.err) == (2, "no config file 'mien.yaml'. Did you mean 'mine.yaml'?\n")


def test_runs_are_listed_newest_first_with_their_headline(gage: Gage) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    (row,) = gage("show", "--json").json
    assert (row["run"], row["status"], row["tasks"]) == ("first", "completed", ["sums"])
    assert row["score"].startswith("exact_match 0.167")
    assert "exact_match 0.167" in gage("show").out
    assert "Start one: gage run CONFIG" in gage("show", "--output-dir", "empty").out


def test_the_list_names_the_first_of_several_scores_and_counts_the_others(gage: Gage, workspace: Path) -> None:
    tasks = [{"task_id": name, "dataset_id": "sums"} for name in ("left", "middle", "right")]
    write_config(workspace, tasks=tasks)
    gage("run", "mine.yaml", "--inline")
    (row,) = gage("show", "--json").json
    assert row["score"].startswith("left exact_match 0.167")
    assert row["score"].endswith("; 2 more")


def test_a_finished_run_shows_scores_stages_and_artifacts(gage: Gage) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("show", "first").out
    assert "exact_match  0.167" in said
    assert re.search(rf"infer +finished +{ROWS} rows +responses [0-9a-f]{{8}}", said)
    assert gage("show", "first", "--json").json["summary"]["run"]["run_id"] == "first"


def test_a_sample_shows_what_was_sent_what_came_back_and_why_it_scored(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **JUDGED)
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    (workspace / "mine.yaml").unlink()  # the run keeps its config
    said = gage("show", "first", "--sample", "s1").out
    for words in ("infer, as sent", "1 + 1 = ?", "answer: ok", "    2\n", "Is 2 right? Expected: 2", "SCORE: 3"):
        assert words in said
    assert "exact_match: scored score=1" in said
    assert "sent in another form" not in said
    (whole,) = gage("show", "first", "--sample", "s1", "--json").json
    assert [call["as_sent"] for call in whole["calls"]] == [True, True]
    assert whole["sample"]["label"] == "2"


def test_a_sample_in_error_shows_why(gage: Gage, workspace: Path) -> None:
    backend = {"backend_id": "model", "type": "dummy", "config": {"fail_sample_ids": ["s1"]}}
    write_config(workspace, backends=[backend])
    assert gage("run", "mine.yaml", "--inline", "--run-id", "first").code == 1
    assert "failed attempt: the dummy was told to fail" in gage("show", "first", "--sample", "s1").out
    said = gage("show", "first").out
    assert "failed" in said
    assert said.count("gage resume first") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("first", "--sample", "nope"), "run first has no request for sample 'nope'"),
        (("first", "--sample", "s1", "--task", "sum"), "Did you mean 'sums'?"),
        (("firs",), "no run 'firs'"),
        (("../first",), "cannot be a run id"),
        (("--sample", "s1"), "need a run"),
        (("first", "--task", "sums"), "gage show first --task sums --wrong (or --sample ID)"),
    ],
)
def test_what_is_not_there_is_named(gage: Gage, arguments: tuple[str, ...], message: str) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("show", *arguments)
    assert said.code == 2
    assert message in said.err


def under_way(folder: Path, *, silent: timedelta) -> None:
    """A run's folder as a process leaves it in the middle of infer."""
    last = datetime.now(UTC) - silent
    figures = {"in_flight": 8, "retried": 2, "errors": 1}
    infer = StageRecord(state="running", started=last, done=40, total=90, figures=figures)
    config = ConfigRecord(source="mine.yaml", digest="0", text="")
    record = RunRecord(
        run_id=folder.name, name="small", created=last, status="running", tasks=["sums"], options={}, config=config,
        stages={"sums/infer": infer},
    )  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(record.text())


def test_a_run_under_way_shows_its_progress(gage: Gage, workspace: Path) -> None:
    under_way(workspace / ".gage" / "runs" / "busy", silent=timedelta(seconds=2))
    said = gage("show", "busy").out
    assert "40/90 · 8 in flight · 2 retried · 1 in error" in said
    assert "It is running; its last sign of life was" in said


def test_a_run_without_a_sign_of_life_is_said_to_be_killed(gage: Gage, workspace: Path) -> None:
    under_way(workspace / ".gage" / "runs" / "gone", silent=timedelta(hours=5))
    said = gage("show", "gone").out
    assert "No sign of life for about 5 h: it was probably killed; resume it: gage resume gone" in said
    assert re.search(r"^infer +stopped +40/90 · 2 retried · 1 in error$", said, re.MULTILINE), "nothing is in flight"
    assert gage("show", "--json").json[0]["status"] == "silent"


@pytest.mark.parametrize(("status", "state"), [("interrupted", "stopped"), ("failed", "failed")])
def test_a_stage_of_an_interrupted_run_was_stopped_and_did_not_fail(
    gage: Gage, workspace: Path, status: str, state: str
) -> None:
    folder = workspace / ".gage" / "runs" / "busy"
    under_way(folder, silent=timedelta(seconds=2))
    record = orjson.loads((folder / "run.json").read_bytes())
    record["status"], record["stages"]["sums/infer"]["state"] = status, state
    (folder / "run.json").write_bytes(orjson.dumps(record))
    assert re.search(rf"^infer +{state} +40/90", gage("show", "busy").out, re.MULTILINE)


def test_a_killed_run_is_told_from_one_under_way_by_its_process(gage: Gage, workspace: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        folder = workspace / ".gage" / "runs" / "busy"
        under_way(folder, silent=timedelta(hours=5))
        record = orjson.loads((folder / "run.json").read_bytes())
        record["process"] = {"host": socket.gethostname(), "pid": process.pid, "born": born(process.pid)}
        (folder / "run.json").write_bytes(orjson.dumps(record))
        assert gage("show", "--json").json[0]["status"] == "running"
        process.kill()
    assert gage("show", "--json").json[0]["status"] == "killed"
    assert "Its process was killed. What was computed is kept" in gage("show", "busy").out


def test_a_damaged_folder_does_not_hide_the_other_runs(gage: Gage, workspace: Path) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    runs = workspace / ".gage" / "runs"
    for name, record in (("broken", "{"), ("foreign", "[1]"), ("partial", '{"status": "completed"}')):
        (runs / name).mkdir()
        (runs / name / "run.json").write_text(record)
    statuses = {row["run"]: row["status"] for row in gage("show", "--json").json}
    assert statuses == {"first": "completed", "broken": "damaged", "foreign": "damaged", "partial": "damaged"}
    assert gage("show").code == 0
    assert "broken/run.json is not a run record (it is not JSON" in gage("show", "broken").err
    assert "run.json is not a run record (name: Field required)." in gage("show", "partial").err
    assert gage("resume", "partial").code == gage("score", "partial", "--metric", "contains").code == 2


@pytest.mark.parametrize("summary", [None, "{", '{"schema_version": 0}'])
def test_a_summary_nobody_can_read_does_not_hide_the_other_runs(
    gage: Gage, workspace: Path, summary: str | None
) -> None:
    for run_id in ("first", "second"):
        gage("run", "mine.yaml", "--inline", "--run-id", run_id)
    file = workspace / ".gage" / "runs" / "second" / "summary.json"
    file.unlink()
    if summary is not None:
        file.write_text(summary)
    scores = {row["run"]: row["score"] for row in gage("show", "--json").json}
    assert scores["first"].startswith("exact_match")
    assert scores["second"] is None
    said = gage("show", "second")
    assert said.code == 2
    assert said.err.endswith(": gage resume second\n")
    assert gage("resume", "second", "--inline").code == 0
    assert gage("show", "second").code == 0


def test_a_run_of_other_scores_says_whose_responses_they_are_of(gage: Gage) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    keep = ("score", "first", "--metric", "contains", "--save", "--run-id", "again")
    assert gage(*keep).code == 0
    assert gage("show", "again").out.endswith("\nIt holds other scores of the responses of run first.\n")
    assert gage(*keep).err == "a run 'again' exists already in .gage/runs. Choose another --run-id.\n"


def test_a_run_that_goes_on_with_an_edited_config_records_that_one(gage: Gage, workspace: Path) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    before = gage("show", "first", "--json").json["record"]
    datasets = [{"dataset_id": name, "params": {"path": "rows.jsonl"}} for name in ("sums", "more")]
    file = write_config(workspace, datasets=datasets)
    gage("resume", "first", "--inline")
    record = gage("show", "first", "--json").json["record"]
    assert record["tasks"] == ["sums", "more"]
    assert record["config"]["text"] == file.read_text()
    assert record["config"]["digest"] != before["config"]["digest"]
    assert record["created"] == before["created"]


def test_options_of_another_version_are_said_when_a_run_is_to_go_on(gage: Gage, workspace: Path) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    file = workspace / ".gage" / "runs" / "first" / "run.json"
    record = orjson.loads(file.read_bytes())
    file.write_bytes(orjson.dumps({**record, "options": {**record["options"], "priority": 1}}))
    said = gage("resume", "first")
    assert said.code == 2
    assert "run.json holds options that cannot be used: priority: " in said.err


def test_a_failed_run_shows_the_scores_of_its_finished_tasks(gage: Gage, workspace: Path) -> None:
    backends = [
        {"backend_id": "good", "type": "dummy", "config": {"answer": "2"}},
        {"backend_id": "gone", "type": "dummy", "config": {"error_rate": 1.0}},
    ]
    tasks = [{"task_id": name, "dataset_id": "sums", "adapter_id": name} for name in ("good", "gone")]
    write_config(workspace, backends=backends, tasks=tasks)
    assert gage("run", "mine.yaml", "--inline", "--run-id", "half").code == 1
    said = gage("show", "half").out
    assert re.search(r"good +exact_match +0\.167", said)
    assert re.search(r"gone +infer +failed", said)
    assert f"{ROWS} of {ROWS} rows of task 'gone' ended in an error" in said
