"""Kill anything at any moment: the next run continues from there with the same result."""

import random
import signal
from pathlib import Path

import pytest
from crash.processes import PATIENCE_S, Gage, outputs, sent_keys, status, until
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import write_config

from gage_eval.store import Store

ROWS = 600
IN_FLIGHT = 24
STAGES = {"load", "standardize", "preprocess", "infer", "judge", "auto_eval", "scores", "report"}
# Bytes of one answer in the log, near enough to spread the kills over the run.
RECORD = 120


def project(folder: Path, endpoint: MockEndpoint, **changes: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    backend = {"max_concurrency": IN_FLIGHT, "timeout": 20}
    return write_config(folder, endpoint.url, rows=ROWS, backend=backend, **changes)


def undisturbed(folder: Path, endpoint: MockEndpoint) -> dict[str, dict[str, str]]:
    """What a run that nobody kills comes to."""
    project(folder, endpoint)
    Gage(folder).finish("run", "sums.yaml")
    return outputs(folder)


def test_ten_kills_cost_only_what_was_in_flight_and_change_no_artifact(tmp_path: Path) -> None:
    rng = random.Random(20)
    folder = tmp_path / "killed"
    # One while it starts, one when the answers are complete, eight while it asks.
    marks = sorted(rng.sample(range(10, ROWS - 20), 8))
    with mock_endpoint(latency_ms=100, keep_bodies=True) as endpoint:
        config = project(folder, endpoint)
        gage = Gage(folder)
        moments = [
            lambda: (folder / ".gage" / "runs" / "killed" / "run.json").exists(),
            *(lambda mark=mark: gage.logged_bytes() >= mark * RECORD for mark in marks),
            lambda: (folder / ".gage" / "actions" / "infer").exists(),
        ]
        kept: set[str] = set()
        answered = 0
        for kills, moment in enumerate(moments):
            again = ("resume", "killed") if kills and rng.random() < 0.5 else ("run", "sums.yaml")
            process = gage.start(*again, *(("--run-id", "killed") if kills == 0 else ()))
            assert until(moment, process), gage.said()
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)
            stats = endpoint.stats()
            sent = sent_keys(config, stats["bodies"])
            assert not kept & set(sent[answered:]), "an answer on disk was asked for again"
            assert stats["resent_after_answer"] <= IN_FLIGHT * kills
            kept, answered = kept | gage.kept_keys(), len(sent)
        assert status(folder, "killed") == "running"
        gage.finish("resume", "killed")
        stats = endpoint.stats()
        assert not kept & set(sent_keys(config, stats["bodies"])[answered:])
        assert stats["distinct_answered"] == ROWS
        assert stats["resent_after_answer"] <= IN_FLIGHT * len(moments)
        assert stats["max_in_flight"] <= 2 * IN_FLIGHT, "a killed client's requests, and those of the next"
        assert status(folder, "killed") == "completed"
        ids = outputs(folder)
        assert set(ids) == STAGES
        assert ids == undisturbed(tmp_path / "undisturbed", endpoint)


@pytest.mark.slow
def test_a_killed_run_that_stops_early_ends_with_the_same_content(tmp_path: Path) -> None:
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    with mock_endpoint(latency_ms=50) as endpoint:
        task = {"task_id": "sums", "dataset_id": "sums", "stop_when": {"half_width": 0.01}}
        for each in (folder, whole):
            project(each, endpoint, tasks=[task])
        gage = Gage(folder)
        process = gage.start("run", "sums.yaml", "--run-id", "killed")
        looks = folder / ".gage" / "actions" / "infer"
        assert until(lambda: looks.is_dir() and len(list(looks.iterdir())) >= 2, process), gage.said()
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        gage.finish("resume", "killed")
        Gage(whole).finish("run", "sums.yaml")
        looks_of = [
            {(action.stage, action.key): action.outputs.get("responses") for action in Store.open(store).actions.all()}
            for store in (str(folder / ".gage"), str(whole / ".gage"))
        ]
        assert looks_of[0] == looks_of[1]
        assert sum(stage == "infer" for stage, _ in looks_of[0]) > 2


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_keeps_its_log_and_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    with mock_endpoint(latency_ms=50) as endpoint:
        project(tmp_path, endpoint)
        gage = Gage(tmp_path)
        process = gage.start("run", "sums.yaml", "--run-id", "stopped")
        assert until(lambda: gage.logged_bytes() >= 100 * RECORD, process), gage.said()
        logged = len(gage.kept_keys())
        process.send_signal(how)
        code = process.wait(PATIENCE_S)
        assert code == 128 + how
        said = gage.said()
        assert "Traceback" not in said
        assert "Interrupted. What was computed is kept." in said
        assert status(tmp_path, "stopped") == "interrupted"
        kept = len(gage.kept_keys())
        assert kept >= logged > 0
        endpoint.phase("resumed")
        gage.finish("resume", "stopped")
        phase = endpoint.stats()["phases"]["resumed"]
    assert phase["requests"] == ROWS - kept
    assert not list(gage.wip.rglob("*.log")), "the log of a finished stage is cleared away"
    assert phase.get("resent_after_answer", 0) <= IN_FLIGHT
    assert status(tmp_path, "stopped") == "completed"


def test_an_interruption_ends_several_tasks_at_once(tmp_path: Path) -> None:
    tasks = [{"task_id": f"task-{k}", "dataset_id": "sums", "sampling_params": {"seed": k}} for k in range(3)]
    with mock_endpoint(latency_ms=2000) as endpoint:
        project(tmp_path, endpoint, tasks=tasks)
        gage = Gage(tmp_path)
        process = gage.start("run", "sums.yaml", "--run-id", "stopped")
        assert until(lambda: endpoint.stats()["requests"] >= IN_FLIGHT, process), gage.said()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130, gage.said()
        # Each task has more than ten times as much to ask: nobody waited for their end.
        assert endpoint.stats()["requests"] <= 3 * IN_FLIGHT
    assert "Traceback" not in gage.said()


def test_two_runs_of_one_key_at_once_ask_every_row_once(tmp_path: Path) -> None:
    with mock_endpoint(latency_ms=5) as endpoint:
        project(tmp_path, endpoint)
        gage = Gage(tmp_path)
        pair = [gage.start("run", "sums.yaml", "--run-id", f"run-{k}") for k in range(2)]
        assert [process.wait(PATIENCE_S) for process in pair] == [0, 0]
        stats = endpoint.stats()
        ids = outputs(tmp_path)
    assert (stats["requests"], stats["resent_after_answer"]) == (ROWS, 0)
    assert set(ids) == STAGES
    assert [status(tmp_path, f"run-{k}") for k in range(2)] == ["completed", "completed"]


def test_two_runs_without_locks_may_ask_twice_but_agree_on_every_artifact(tmp_path: Path) -> None:
    launcher = (str(Path(__file__).with_name("without_locks.py")),)
    with mock_endpoint(latency_ms=5) as endpoint:
        project(tmp_path / "both", endpoint)
        gage = Gage(tmp_path / "both", launcher)
        pair = [gage.start("run", "sums.yaml", "--run-id", f"run-{k}") for k in range(2)]
        assert [process.wait(PATIENCE_S) for process in pair] == [0, 0], gage.said()
        stats = endpoint.stats()
        assert stats["distinct_answered"] == ROWS
        assert outputs(tmp_path / "both") == undisturbed(tmp_path / "undisturbed", endpoint)
    assert [status(tmp_path / "both", f"run-{k}") for k in range(2)] == ["completed", "completed"]
