"""Answers in a log reach a shared store while a step runs; another machine finds them there."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.endpoint import mock_endpoint
from support.runs import gage, write_config
from support.waiting import wait_for

from gage_eval.base.canonical import digest
from gage_eval.engine.shared_log import SharedLog
from gage_eval.engine.wal import LogWriter, index_logs
from gage_eval.store import Store

KEY = digest("an action")


def test_another_machine_finds_the_logged_answers(s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wip = Store.open(s3_url).wip(KEY)
    answers = {digest(number): b"answer %d" % number * 10 for number in range(50)}
    # Segments of the log are small, so that they change between two shares.
    log = LogWriter(wip.scratch(), segment_bytes=500)
    shared = SharedLog(log, wip)
    shared.share()
    for number, (key, payload) in enumerate(answers.items()):
        log.append(key, payload)
        if number % 7 == 0:
            shared.share()
    shared.share()
    shared.share()
    log.close()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    wip.fetch_logs()
    assert dict(index_logs(wip.scratch())) == answers
    wip.discard()
    assert list(Store.open(s3_url).objects.list("wip")) == []


def test_a_machine_does_not_fetch_its_own_log(s3_url: str) -> None:
    wip = Store.open(s3_url).wip(KEY)
    with LogWriter(wip.scratch()) as log:
        log.append(digest(1), b"answer")
        SharedLog(log, wip).share()
    wip.fetch_logs()
    assert len(list(wip.scratch().iterdir())) == 1


def test_a_lost_machine_costs_at_most_ten_seconds_of_answers(
    s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, concurrency, latency_s = 240, 4, 0.5
    command = [sys.executable, "-m", "gage_eval", "run", "sums.yaml", "--inline", "--store", s3_url, "--run-id", "r"]
    with mock_endpoint(latency_ms=1000 * latency_s) as endpoint:
        write_config(tmp_path, endpoint.url, rows=rows, backend={"max_concurrency": concurrency})
        run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        wait_for(lambda: endpoint.stats()["answered"] >= rows // 2, "half of the answers", every_s=0.02)
        run.kill()
        run.wait()
        answered = endpoint.stats()["answered"]
        time.sleep(2 * latency_s)
        # Another machine has the store, and nothing of the lost one's disk.
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
        gage(tmp_path, "resume", "r", "--inline", "--store", s3_url)
        stats = endpoint.stats()
    assert stats["distinct_answered"] == rows
    lost = 10 * concurrency / latency_s + concurrency
    assert stats["resent_after_answer"] <= lost < answered
