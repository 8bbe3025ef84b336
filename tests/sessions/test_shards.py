"""Shards of a run: they share the work, and any of them, or the run itself, may be killed or cancelled."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from sessions.shards import STOP_S, Started, placed_config, seconds_until_gone
from support.endpoint import mock_endpoint
from support.engines import starts, write_fake_vllm
from support.runs import gage, stage_outputs, summary, write_config
from support.waiting import Stopwatch

import gage_eval
from gage_eval.engine.session import SessionFolder
from gage_eval.store import Store

ROWS = 400
CONCURRENCY = 8


@pytest.fixture(params=["local", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a fresh store of each kind."""
    return str(tmp_path / ".gage") if request.param == "local" else str(request.getfixturevalue("s3_url"))


def sessions(store: str) -> list[str]:
    """What is left of sessions in a store."""
    return [item.path for item in Store.open(store).objects.list("sessions")]


def test_shards_share_the_rows_and_the_next_run_starts_none(tmp_path: Path, url: str) -> None:
    with mock_endpoint(latency_ms=30) as endpoint:
        placed_config(tmp_path, endpoint.url, rows=ROWS, tasks=2, backend={"max_concurrency": CONCURRENCY})
        gage(tmp_path, "run", "sums.yaml", "--inline", "--store", url, "--run-id", "one")
        stats = endpoint.stats()
        assert stats["requests"] == 2 * ROWS
        assert CONCURRENCY < stats["max_in_flight"] <= 2 * CONCURRENCY, "both shards asked at the same time"
        second = gage(tmp_path, "run", "sums.yaml", "--inline", "--store", url, "--run-id", "two").stdout
        assert endpoint.stats()["requests"] == 2 * ROWS
    assert second.count("cached") >= 14
    assert sessions(url) == []
    assert [wip.key for wip in Store.open(url).wips()] == []


def test_a_run_with_shards_has_the_results_of_a_run_without(tmp_path: Path) -> None:
    with mock_endpoint() as endpoint:
        placed_config(tmp_path, endpoint.url, rows=50)
        gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "shards")
        place = "role_adapters.dut.resource_requirement.shards=1"
        gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "alone", "--set", place, "--refresh", "infer")
    assert stage_outputs(tmp_path, "shards") == stage_outputs(tmp_path, "alone")


def test_answers_of_shards_are_in_the_usage_and_have_events(tmp_path: Path) -> None:
    with mock_endpoint(fault={"context": 0.1}) as endpoint:
        prices = {"input_price": 1000.0, "output_price": 2000.0}
        placed_config(tmp_path, endpoint.url, rows=60, backend=prices, observability={"sample_rate": 1.0})
        config = (tmp_path / "sums.yaml").read_text().replace("task_id: t0", "task_id: t0\n  max_error_share: 1.0")
        (tmp_path / "sums.yaml").write_text(config)
        gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "shards")
        gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "again")
    usage, again = (summary(tmp_path, name)["run"]["usage"] for name in ("shards", "again"))
    query = "select sample_id, status, prompt_tokens, completion_tokens from responses where run_id = 'shards'"
    rows = gage_eval.sql(query, store=str(tmp_path / ".gage")).to_pylist()
    prompt, answer = (sum(row[name] or 0 for row in rows) for name in ("prompt_tokens", "completion_tokens"))
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (prompt, answer)
    assert usage["cost"] == pytest.approx((1000 * prompt + 2000 * answer) / 1e6)
    assert 0 < again["completion_tokens"] < answer / 2, "only the failed rows were asked again"

    lines = (tmp_path / ".gage" / "runs" / "shards" / "events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["type"] == "sample_answered"]
    told = {(event["sample_id"], event["payload"]["status"]) for event in events}
    assert told == {(row["sample_id"], row["status"]) for row in rows}
    assert {status for _, status in told} == {"ok", "error"}
    failed = [event["payload"] for event in events if event["payload"]["status"] == "error"]
    assert all(one["error_kind"] and one["error"] for one in failed)
    assert len(events) == len(rows) == 60


def test_a_killed_shards_chunks_are_taken_by_the_other(tmp_path: Path, url: str) -> None:
    with mock_endpoint(latency_ms=100) as endpoint:
        placed_config(tmp_path, endpoint.url, rows=ROWS, backend={"max_concurrency": CONCURRENCY})
        run = Started(tmp_path, url, "run", "sums.yaml", "--run-id", "r")
        victim, _ = run.pids(2)
        run.until(lambda: endpoint.stats()["answered"] > ROWS // 4)
        os.kill(victim, signal.SIGKILL)
        assert run.end() == 0, run.output.read_text()
        stats = endpoint.stats()
    assert stats["distinct_answered"] == ROWS
    if "://" not in url:
        assert stats["resent_after_answer"] <= CONCURRENCY, "what it had in flight"


def test_shards_of_a_killed_run_stop_and_the_run_is_resumed(tmp_path: Path, url: str) -> None:
    with mock_endpoint(latency_ms=300) as endpoint:
        placed_config(tmp_path, endpoint.url, rows=ROWS, backend={"max_concurrency": CONCURRENCY})
        run = Started(tmp_path, url, "run", "sums.yaml", "--run-id", "r")
        pids = run.pids(2)
        run.until(lambda: endpoint.stats()["answered"] > 20)
        run.kill()
        assert seconds_until_gone(pids) <= STOP_S
        before = endpoint.stats()
        time.sleep(1.0)
        assert endpoint.stats()["requests"] == before["requests"], "no shard goes on"
        again = Started(tmp_path, url, "resume", "r")
        assert again.end() == 0, again.output.read_text()
        stats = endpoint.stats()
    assert stats["distinct_answered"] == ROWS
    assert stats["resent_after_answer"] <= 2 * CONCURRENCY, "what was in flight"


@pytest.mark.parametrize("how", ["interrupt", "marker"])
def test_a_cancelled_session_ends_on_both_sides(tmp_path: Path, how: str) -> None:
    store = str(tmp_path / ".gage")
    with mock_endpoint(latency_ms=400) as endpoint:
        placed_config(tmp_path, endpoint.url, rows=ROWS, backend={"max_concurrency": CONCURRENCY})
        run = Started(tmp_path, store, "run", "sums.yaml", "--run-id", "r")
        pids = run.pids(2)
        with Stopwatch() as watch:
            if how == "interrupt":
                run.process.send_signal(signal.SIGINT)
            else:
                (path,) = [path for path in sessions(store) if path.endswith("/session.json")]
                SessionFolder(run.store, path.split("/")[1]).end("an operator ended it")
            assert run.end() != 0
            seconds_until_gone(pids)
        assert watch.seconds <= STOP_S
    assert "Traceback" not in run.output.read_text()
    assert sessions(store) == []


def test_a_run_whose_shards_are_all_lost_says_so_and_is_resumed(tmp_path: Path) -> None:
    store = str(tmp_path / ".gage")
    with mock_endpoint(latency_ms=100) as endpoint:
        placed_config(tmp_path, endpoint.url, rows=ROWS, backend={"max_concurrency": CONCURRENCY})
        run = Started(tmp_path, store, "run", "sums.yaml", "--run-id", "r")
        pids = run.pids(2)
        run.until(lambda: endpoint.stats()["answered"] > ROWS // 2)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert run.end() == 1
        assert "infer stopped: shard 0: its process ended with status -9." in " ".join(run.output.read_text().split())
        again = Started(tmp_path, store, "resume", "r")
        assert again.end() == 0, again.output.read_text()
        stats = endpoint.stats()
    assert stats["distinct_answered"] == ROWS
    assert stats["resent_after_answer"] <= 2 * CONCURRENCY


def test_an_error_of_the_engine_reaches_the_user(tmp_path: Path) -> None:
    with mock_endpoint(fault={"403": 1.0}, fault_attempts=9) as endpoint:
        placed_config(tmp_path, endpoint.url, rows=20)
        done = gage(tmp_path, "run", "sums.yaml", "--inline", check=False)
    assert done.returncode == 1
    assert "infer stopped: shard 0:" in done.stderr
    assert "403" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_limit_of_tokens_holds_for_all_shards_together_and_a_resumed_run_counts_again(tmp_path: Path) -> None:
    """Seven tokens a row: 1,400 are 200 rows, and what is in flight in both shards."""
    store = str(tmp_path / ".gage")
    with mock_endpoint(latency_ms=20) as endpoint:
        placed_config(
            tmp_path, endpoint.url, rows=ROWS, backend={"max_concurrency": CONCURRENCY}, limits={"tokens": 1400}
        )
        run = Started(tmp_path, store, "run", "sums.yaml", "--run-id", "r")
        assert run.end() == 1
        answered = endpoint.stats()["answered"]
        assert 200 <= answered <= 200 + 2 * CONCURRENCY
        said = " ".join(run.output.read_text().split())
        assert "infer stopped: limits.tokens (1,400) is reached" in said
        assert "To resume with the same limits again: gage resume r" in said
        assert list(Store.open(store).objects.list("limits")) == []
        assert Started(tmp_path, store, "resume", "r").end() == 0
        assert endpoint.stats()["distinct_answered"] == ROWS


def test_rows_in_error_are_committed_and_a_later_run_asks_only_for_them(tmp_path: Path) -> None:
    with mock_endpoint(fault={"context": 0.05}, fault_attempts=1) as endpoint:
        placed_config(tmp_path, endpoint.url, rows=ROWS)
        config = (tmp_path / "sums.yaml").read_text().replace("task_id: t0", "task_id: t0\n  max_error_share: 1.0")
        (tmp_path / "sums.yaml").write_text(config)
        gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "one")
        wrong = endpoint.stats()["faults"]["context"]
        assert wrong
        assert summary(tmp_path, "one")["tasks"][0]["responses"]["error"] == wrong
        gage(tmp_path, "resume", "one", "--inline", "--only-errors")
        stats = endpoint.stats()
    assert (stats["requests"], stats["resent_after_answer"]) == (ROWS + wrong, 0)
    assert summary(tmp_path, "one")["tasks"][0]["responses"]["error"] == 0


def test_an_engine_starts_once_per_shard_and_wave_for_all_tasks(tmp_path: Path) -> None:
    tasks, shards = 5, 2
    requirement = {"shards": shards}
    adapters: list[dict[str, Any]] = [
        {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "engine", "resource_requirement": requirement},
        {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "engine", "prompt_id": "verdict"},
    ]
    write_config(
        tmp_path,
        "",
        rows=40,
        backends=[{"backend_id": "engine", "type": "vllm", "config": write_fake_vllm(tmp_path)}],
        prompts=[{"prompt_id": "verdict", "template": "Is {{ model_answer }} right? SCORE: 1"}],
        role_adapters=adapters,
        tasks=[{"task_id": f"t{k}", "dataset_id": "sums", "sampling_params": {"seed": k}} for k in range(tasks)],
    )
    gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "one")
    assert len(starts(tmp_path)) == 2 * shards, "once per shard for infer, once per shard for the judge"
    gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "two")
    assert len(starts(tmp_path)) == 2 * shards, "a hit starts none"


def test_a_work_pool_needs_a_prefect_api(tmp_path: Path) -> None:
    placed_config(tmp_path, "http://127.0.0.1:9/v1", rows=5)
    place = "role_adapters.dut.resource_requirement.work_pool=h100"
    done = gage(tmp_path, "run", "sums.yaml", "--inline", "--set", place, check=False)
    assert done.returncode == 2
    assert "the work pool 'h100' needs a Prefect API: set PREFECT_API_URL" in " ".join(done.stderr.split())


def test_each_shard_has_its_own_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    config = {**write_fake_vllm(tmp_path), "tensor_parallel_size": 2}
    adapter = {
        "adapter_id": "dut",
        "role_type": "dut_model",
        "backend_id": "engine",
        "resource_requirement": {"shards": 2},
    }
    write_config(
        tmp_path,
        "",
        rows=200,
        backends=[{"backend_id": "engine", "type": "vllm", "config": config}],
        role_adapters=[adapter],
    )
    gage(tmp_path, "run", "sums.yaml", "--inline", "--run-id", "r", env={"CUDA_VISIBLE_DEVICES": "4,5,6,7"})
    assert sorted(str(start.gpus) for start in starts(tmp_path)) == ["4,5", "6,7"]
    assert summary(tmp_path, "r")["run"]["usage"]["gpu_seconds"] > 0


_OWN = """
import os
from pathlib import Path

class Own:
    def __init__(self):
        Path(__file__).with_name(f"started-{os.getpid()}").touch()

    def generate(self, request):
        return "ANSWER: 1"
"""


def test_the_option_shards_places_a_class_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(_OWN)
    config = {"file_path": str(tmp_path / "own.py"), "class_name": "Own"}
    write_config(tmp_path, "", rows=40, backends=[{"backend_id": "own", "type": "custom_script", "config": config}])
    done = gage(tmp_path, "run", "sums.yaml", "--inline", "--shards", "2")
    assert len(list(tmp_path.glob("started-*"))) == 2
    assert "no effect" not in done.stdout


def test_the_option_shards_says_that_a_run_has_nothing_to_place(tmp_path: Path) -> None:
    write_config(tmp_path, "", rows=2, backends=[{"backend_id": "dummy", "type": "dummy"}])
    done = gage(tmp_path, "run", "sums.yaml", "--inline", "--shards", "2")
    assert "shards and work pool have no effect" in " ".join(done.stdout.split())
