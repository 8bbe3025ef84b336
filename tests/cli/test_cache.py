"""cache: a listing is complete, damage is found, and a collection takes nothing that is needed."""

import os
import time
from pathlib import Path

import orjson
import pytest

from tests.cli.conftest import Gage
from tests.support.workspace import write_config

LONG_AGO = time.time() - 31 * 86_400


def age(store: Path) -> None:
    """Make everything in a store a month old."""
    for file in store.rglob("*"):
        os.utime(file, (LONG_AGO, LONG_AGO))


def forget(store: Path, run_id: str) -> None:
    """Remove a run's folder, so that nothing refers to what it made."""
    folder = store / "runs" / run_id
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def artifacts(store: Path) -> set[str]:
    return {folder.name for folder in (store / "artifacts").iterdir()} if (store / "artifacts").is_dir() else set()


@pytest.fixture
def store(gage: Gage, workspace: Path) -> Path:
    """A store with one finished run, `first`."""
    assert gage("run", "mine.yaml", "--inline", "--run-id", "first").code == 0
    return workspace / ".gage"


def test_ls_names_every_artifact_with_what_points_to_it(gage: Gage, store: Path) -> None:
    listed = gage("cache", "ls", "--json").json
    assert {entry["id"] for entry in listed} == artifacts(store)
    assert all(entry["actions"] for entry in listed)
    assert f"{len(listed)} artifacts" in gage("cache", "ls").out


def test_verify_finds_damage_exits_1_and_removes_on_request(gage: Gage, store: Path) -> None:
    assert gage("cache", "verify").code == 0
    part = next((store / "artifacts").rglob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-9])
    verified = gage("cache", "verify")
    assert verified.code == 1
    assert part.parent.name in verified.out
    assert gage("cache", "verify", "--json").json
    assert "removed" in gage("cache", "verify", "--remove").out
    assert gage("cache", "verify").code == 0
    assert gage("run", "mine.yaml", "--inline").code == 0


def test_gc_keeps_what_runs_refer_to_and_their_next_run_is_cached(gage: Gage, store: Path) -> None:
    before = artifacts(store)
    age(store)
    assert gage("cache", "gc").code == 0
    assert artifacts(store) == before
    states = {stage["state"] for stage in gage("plan", "mine.yaml", "--json").json["stages"]}
    assert states == {"cached"}


def test_gc_removes_what_no_run_refers_to(gage: Gage, store: Path, workspace: Path) -> None:
    kept = artifacts(store)
    write_config(workspace, metrics=["contains"])
    gage("run", "mine.yaml", "--inline", "--run-id", "second")
    assert artifacts(store) > kept
    forget(store, "second")
    age(store)
    dry = gage("cache", "gc", "--dry-run", "--json").json
    assert dry["objects"] > 0
    assert artifacts(store) > kept
    done = gage("cache", "gc", "--json").json
    assert done["paths"] == dry["paths"]
    assert artifacts(store) == kept


def test_gc_leaves_what_is_younger_than_min_age(gage: Gage, store: Path) -> None:
    kept = artifacts(store)
    forget(store, "first")
    gage("cache", "gc")
    assert artifacts(store) == kept
    gage("cache", "gc", "--min-age", "0s")
    assert artifacts(store) == set()


def test_gc_keeps_what_baselines_refer_to(gage: Gage, store: Path) -> None:
    metrics = next(entry["id"] for entry in gage("cache", "ls", "--json").json if entry["table"] == "metrics")
    forget(store, "first")
    baseline = store / "baselines" / "small" / "main.json"
    baseline.parent.mkdir(parents=True)
    baseline.write_bytes(orjson.dumps({"metrics": {"sums": metrics}}))
    age(store)
    gage("cache", "gc")
    assert artifacts(store) == {metrics}


def test_gc_protects_everything_younger_than_a_run_under_way(gage: Gage, store: Path) -> None:
    kept = artifacts(store)
    record = orjson.loads((store / "runs" / "first" / "run.json").read_bytes())
    forget(store, "first")
    folder = store / "runs" / "busy"
    folder.mkdir()
    began = {name: record[name] for name in ("name", "created", "tasks", "options", "config")}
    (folder / "run.json").write_bytes(orjson.dumps({**began, "run_id": "busy", "status": "running"}))
    said = gage("cache", "gc", "--min-age", "0s")
    assert "Running: busy." in said.out
    assert artifacts(store) == kept


def test_gc_stops_at_a_run_nobody_can_read(gage: Gage, store: Path) -> None:
    (store / "runs" / "first" / "run.json").write_text("{")
    age(store)
    said = gage("cache", "gc")
    assert said.code == 1
    assert "Nothing was removed" in said.err
    assert artifacts(store)


@pytest.mark.parametrize("command", [("ls",), ("verify",), ("gc",)])
def test_a_store_that_is_not_there_is_said_and_not_made(gage: Gage, workspace: Path, command: tuple[str, ...]) -> None:
    said = gage("cache", *command, "--store", "nowhere")
    assert said.code == 2
    assert "there is no store at nowhere" in said.err
    assert not (workspace / "nowhere").exists()


def test_a_wrong_age_is_refused(gage: Gage, store: Path) -> None:
    said = gage("cache", "gc", "--min-age", "soon")
    assert said.code == 2
    assert "--min-age 'soon' is not an age" in said.err


def test_gc_keeps_what_runs_in_any_other_folder_refer_to(gage: Gage, workspace: Path) -> None:
    assert gage("run", "mine.yaml", "--inline", "--run-id", "away", "--output-dir", "elsewhere").code == 0
    store = workspace / ".gage"
    age(store)
    before = artifacts(store)
    assert before
    assert gage("cache", "gc").code == 0
    assert artifacts(store) == before
    assert gage("show", "away", "--output-dir", "elsewhere").code == 0


def test_a_folder_of_runs_that_cannot_be_read_stops_gc_until_it_is_said_to_be_gone(gage: Gage, workspace: Path) -> None:
    assert gage("run", "mine.yaml", "--inline", "--run-id", "away", "--output-dir", "elsewhere").code == 0
    store = workspace / ".gage"
    age(store)
    before = artifacts(store)
    (workspace / "elsewhere").rename(workspace / "moved")
    stopped = gage("cache", "gc")
    assert stopped.code == 1
    assert f"runs in {workspace}/elsewhere use this store" in stopped.err
    assert f"gage cache gc --forget-root {workspace}/elsewhere" in stopped.err
    assert artifacts(store) == before
    assert gage("cache", "gc", "--forget-root", "no-such").code == 2
    assert gage("cache", "gc", "--forget-root", "elsewhere", "--dry-run").code == 0
    assert artifacts(store) == before
    assert gage("cache", "gc", "--forget-root", "elsewhere").code == 0
    assert artifacts(store) == set()
    assert gage("cache", "gc").code == 0, "it is forgotten for good"
