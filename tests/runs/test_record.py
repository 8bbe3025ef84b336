"""run.json: it says what a run did while the run is under way, nobody's change is lost, and damage is one sentence."""

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from gage_eval.base.errors import GageError, InputError, StoreError
from gage_eval.base.stages import StageResult
from gage_eval.observability.events import Event, StageFailed, StageFinished, StageProgress, StageStarted
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from gage_eval.runs.record import ConfigRecord, RunRecord, StageRecord
from gage_eval.runs.recorder import Recorder
from gage_eval.runs.results.stored import StoredRun
from gage_eval.runs.resume import resumed
from tests.support.runs import stage_states
from tests.support.workspace import write_config, write_rows

KEY, OUTPUT = "a" * 64, "b" * 64


def new_folder(root: str, run_id: str = "first") -> RunFolder:
    record = RunRecord(
        name="small",
        status="running",
        created=datetime.now(UTC),
        tasks=["sums"],
        options={},
        config=ConfigRecord(source="mine.yaml", digest="0", text=""),
    )
    return RunFolder.create(Locations(root, root), run_id, record)


def result(stage: str = "infer", *, cached: bool = False, **changes: Any) -> StageResult:
    return StageResult(stage, "sums", KEY, {"responses": OUTPUT}, cached=cached, started=1.0, seconds=2.0, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return new_folder(str(tmp_path / "runs"))


# Recording


def test_what_a_stage_does_is_recorded_while_the_run_goes_on(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gage_eval.runs.recorder.WRITE_EVERY_S", 0.01)
    recorder = Recorder(folder, ())

    def recorded(after: Event, reached: Callable[[StageRecord], bool]) -> StageRecord:
        recorder.emit(after)
        while "sums/infer" not in (stages := folder.record().stages) or not reached(stages["sums/infer"]):
            threading.Event().wait(0.005)
        return stages["sums/infer"]

    started = recorded(StageStarted("sums", "infer", 1.0), lambda stage: stage.state == "running")
    assert started.started == datetime.fromtimestamp(1.0, UTC)
    moved = recorded(StageProgress("sums", "infer", 4, 9, {"in_flight": 2}), lambda stage: stage.done == 4)
    assert (moved.total, moved.figures) == (9, {"in_flight": 2})
    finished = recorded(StageFinished(result(counts={"sent": 9})), lambda stage: stage.state == "finished")
    assert (finished.key, finished.outputs, finished.counts) == (KEY, {"responses": OUTPUT}, {"sent": 9})
    again = recorded(StageStarted("sums", "infer", 5.0), lambda stage: stage.state == "running")
    assert again.outputs == {"responses": OUTPUT}, "a collection still has to keep it"
    failed = recorded(
        StageFailed("sums", "infer", "no", "RunFailed", interrupted=False), lambda stage: stage.state == "failed"
    )
    assert failed.error == "no"
    recorder.close()


def test_a_stage_computed_for_refresh_is_recorded_at_once(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.runs.recorder.WRITE_EVERY_S", 3600.0)
    recorder = Recorder(folder, {("sums", "infer")})
    recorder.emit(StageFinished(result("load")))
    assert folder.record().refreshed == []
    recorder.emit(StageFinished(result()))
    assert folder.record().refreshed == ["sums/infer"]
    recorder.close()


def test_the_end_of_a_run_leaves_no_stage_running(folder: RunFolder) -> None:
    recorder = Recorder(folder, ())
    recorder.emit(StageStarted("sums", "load", 1.0))
    recorder.emit(StageFinished(result("load", cached=True)))
    recorder.emit(StageStarted("sums", "infer", 2.0))
    recorder.finish("interrupted", "Ctrl-C")
    record = folder.record()
    assert (record.status, record.error) == ("interrupted", "Ctrl-C")
    assert {name: stage.state for name, stage in record.stages.items()} == {
        "sums/load": "cached",
        "sums/infer": "stopped",
    }


def test_a_run_whose_record_cannot_be_written_goes_on_and_says_so_once(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(change: Callable[[RunRecord], RunRecord]) -> RunRecord:
        raise StoreError("no space left")

    recorder = Recorder(folder, {("sums", "infer"), ("sums", "load")})
    with monkeypatch.context() as patch:
        patch.setattr(folder, "update", full)
        recorder.emit(StageFinished(result("load")))
        recorder.emit(StageFinished(result()))
    assert [record.getMessage() for record in caplog.records] == ["run.json is not up to date: no space left"]
    recorder.finish("completed", None)
    assert folder.record().stages.keys() == {"sums/load", "sums/infer"}, "it is written when there is room again"


def test_an_idle_run_gives_a_sign_of_life(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.runs.recorder.WRITE_EVERY_S", 0.01)
    monkeypatch.setattr("gage_eval.runs.recorder.SIGN_OF_LIFE_S", 0.02)
    recorder = Recorder(folder, ())
    while (first := folder.record().updated) is None:
        threading.Event().wait(0.005)
    while (second := folder.record().updated) == first:
        threading.Event().wait(0.005)
    recorder.close()
    assert second is not None
    assert second > first


def test_nothing_reads_the_event_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without its log is shown, resumed, scored and collected the same."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path)
    outcome = run_inline(RunOptions(config="mine.yaml", store="store", run_id="first", refresh=("infer",)))
    before = StoredRun(outcome.folder)
    seen = before.stages, before.outputs, before.state
    (tmp_path / "store" / "runs" / "first" / "events.jsonl").unlink()
    after = StoredRun.open(Locations.at("store"), "first")
    assert (after.stages, after.outputs, after.state) == seen
    again = run_inline(resumed("first", store="store"))
    assert stage_states(again.folder) == {"cached"}, "what was refreshed is not refreshed again"


def test_a_completed_run_stays_so_where_a_resume_fails_before_it_computes_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write_rows(tmp_path)
    write_config(tmp_path)
    outcome = run_inline(RunOptions(config="mine.yaml", store="store", run_id="first"))
    before = StoredRun(outcome.folder)
    rows.unlink()
    with pytest.raises(GageError, match=r"rows\.jsonl"):
        run_inline(resumed("first", store="store"))
    after = StoredRun.open(Locations.at("store"), "first")
    assert (after.status, after.record.error) == ("completed", None)
    assert after.record.stages == before.record.stages


# Writing side by side

_COUNT = """
import sys
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from gage_eval.runs.record import StageRecord

root, writer, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
folder = RunFolder.open(Locations(root, root), "first")
for number in range(count):
    folder.update(lambda record: record.with_stages({f"{writer}-{number}/load": StageRecord(state="running")}))
    print(number, flush=True)
"""


def writer(root: str, name: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _COUNT, root, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    root = str(tmp_path / "runs")
    folder = new_folder(root)
    writers = [writer(root, name, 25) for name in ("a", "b", "c")]
    for process in writers:
        process.communicate()
        assert process.returncode == 0
    assert len(folder.record().stages) == 75


def test_threads_that_write_at_the_same_time_lose_nothing_on_s3(s3_url: str) -> None:
    folder = new_folder(s3_url)

    def write(name: str) -> None:
        mine = RunFolder.open(Locations(s3_url, s3_url), "first")
        for number in range(5):
            stage = {f"{name}-{number}/load": StageRecord(state="running")}
            mine.update(lambda record, stage=stage: record.with_stages(stage))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folder.record().stages) == 15


def test_a_writer_killed_at_any_moment_leaves_a_whole_record_and_blocks_nobody(tmp_path: Path) -> None:
    root = str(tmp_path / "runs")
    folder = new_folder(root)
    for number in range(3):
        process = writer(root, f"killed{number}", 100_000)
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(5 + number)]
        process.kill()
        process.communicate()
        stages = folder.record().stages
        assert all(f"killed{number}-{int(line)}/load" in stages for line in told), "what was written stays"
        folder.update(lambda record: record)


# Damage


def damages() -> dict[str, Callable[[dict[str, Any]], Any]]:
    def put(path: str, value: Any) -> Callable[[dict[str, Any]], Any]:
        def change(record: dict[str, Any]) -> dict[str, Any]:
            *steps, last = path.split(".")
            inner = record
            for step in steps:
                inner = inner[step]
            inner[last] = value
            return record

        return change

    return {
        "a list": lambda record: [record],
        "null": lambda record: None,
        "no name": lambda record: {name: value for name, value in record.items() if name != "name"},
        "tasks": put("tasks", 5),
        "created": put("created", "yesterday"),
        "no time zone": put("created", "2026-01-01T00:00:00"),
        "status": put("status", "done"),
        "process": put("process", {"host": "here", "pid": "many", "born": 0}),
        "options": put("options", []),
        "config": put("config", "mine.yaml"),
        "stages": put("stages", ["sums/load"]),
        "a stage of no task": put("stages", {"load": {"state": "running"}}),
        "a key": put("stages.sums/load.key", "../../etc"),
        "an output": put("stages.sums/load.outputs", {"raw": "../x"}),
        "outputs": put("stages.sums/load.outputs", None),
        "refreshed": put("refreshed", [7]),
        "another version": put("schema_version", 1),
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    write_rows(folder)
    write_config(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_inline(RunOptions(config="mine.yaml", store=".gage", run_id="first"))
    return folder


@pytest.mark.parametrize("damage", damages().values(), ids=damages())
def test_a_hand_edited_record_is_one_sentence_in_every_command(
    damage: Callable[[dict[str, Any]], Any],
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from gage_eval.api import open_run
    from gage_eval.cli.main import main

    monkeypatch.chdir(finished)
    file = finished / ".gage" / "runs" / "first" / "run.json"
    whole = file.read_bytes()
    file.write_bytes(orjson.dumps(damage(orjson.loads(whole))))
    try:
        for command, code in (
            (("show", "first"), 2),
            (("show", "first", "--json"), 2),
            (("show", "first", "--sample", "s1"), 2),
            (("resume", "first", "--inline"), 2),
            (("score", "first", "--metric", "contains"), 2),
            (("export", "first"), 2),
            (("show", "first", "--wrong"), 2),
            (("cache", "gc", "--dry-run"), 1),
            (("show",), 0),
            (("list", "runs"), 0),
            (("plan", "mine.yaml"), 0),
        ):
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(list(command))
            said = capsys.readouterr()
            assert ended.value.code == code, (command, said.err)
            if code == 0:
                assert "damaged" in said.out or command[0] == "plan"
            else:
                assert "first/run.json is not a run record (" in said.err
                assert len(said.err.splitlines()) == 1
        with pytest.raises(InputError, match="not a run record"):
            open_run("first").samples()
    finally:
        file.write_bytes(whole)
