"""A task of the lm-eval harness is resumed after a kill as any other: no stored answer is asked for again."""

import signal
from pathlib import Path

import pytest
from crash.processes import PATIENCE_S, Gage, status, until
from support.endpoint import mock_endpoint

from tests.scoring.harness.local_tasks import write_group

pytest.importorskip("lm_eval")

ROWS, IN_FLIGHT = 200, 8
# Bytes of one answer in the log, near enough.
RECORD = 120


@pytest.mark.timeout(900)
def test_a_killed_harness_task_asks_for_what_is_missing_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_DATA_CACHE", str(tmp_path / "cache"))
    group = write_group(tmp_path, ["gsm8k"], ROWS)
    gage = Gage(tmp_path)
    with mock_endpoint(latency_ms=300) as endpoint:
        model = ("--model", "mock", "--endpoint", endpoint.url, "--concurrency", str(IN_FLIGHT))
        process = gage.start("suite", f"lm-eval:{group},chat=true", *model, "--run-id", "killed")
        assert until(lambda: gage.logged_bytes() >= 60 * RECORD, process), gage.said()
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        kept = len(gage.kept_keys())
        assert 0 < kept < ROWS
        endpoint.phase("resumed")
        gage.finish("resume", "killed")
        stats = endpoint.stats()
    assert stats["phases"]["resumed"]["requests"] == ROWS - kept
    assert stats["phases"]["resumed"].get("resent_after_answer", 0) <= IN_FLIGHT
    assert stats["distinct_answered"] == ROWS
    assert status(tmp_path, "killed") == "completed"
