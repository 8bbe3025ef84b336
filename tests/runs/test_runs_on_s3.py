"""Whole runs with store and run folders on S3."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.endpoint import mock_endpoint
from support.runs import write_config

import gage_eval
from gage_eval.base.errors import InputError, RunFailed
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from gage_eval.runs.record import ConfigRecord, RunRecord
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store
from tests.store.proxy import failing_proxy


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_on_s3_leaves_everything_there_and_hits_the_second_time(folder: Path, s3_url: str) -> None:
    with mock_endpoint(accuracy=0.7) as endpoint:
        config = write_config(folder, endpoint.url, rows=40, export=["jsonl"])
        first = gage_eval.run(str(config), store=s3_url, run_id="first")
        second = gage_eval.run(str(config), store=s3_url, run_id="second")
        local = gage_eval.run(str(config), store=str(folder / "local"), run_id="local")
        assert endpoint.stats()["requests"] == 80

    assert second.summary.run.sent == 0
    assert first.scores().equals(second.scores())
    objects = Store.open(s3_url).objects
    files = {info.path.removeprefix("runs/first/") for info in objects.list("runs/first")}
    assert files >= {"run.json", "summary.json", "events.jsonl", "report.html", "samples.jsonl"}
    assert [event["type"] for event in map(json.loads, objects.get("runs/first/events.jsonl").splitlines())].count(
        "stage_finished"
    ) == 7
    assert first.samples().num_rows == 40
    assert first.samples().equals(local.samples())
    assert not any(folder.glob(".gage*"))


def test_other_processes_score_a_run_on_s3(folder: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with mock_endpoint(accuracy=0.7, latency_ms=20) as endpoint:
        config = write_config(folder, endpoint.url, rows=200)
        local = gage_eval.run(str(config), store=str(folder / "local"), run_id="local")
        monkeypatch.setenv("GAGE_EVAL_AUTOEVAL_WORKERS", "2")
        there = gage_eval.run(str(config), store=s3_url, run_id="first")
    ids = [
        [row["scores"] for task in RunReader.open(Locations.at(store), run.run_id).tasks() for row in task.metrics]
        for run, store in ((local, str(folder / "local")), (there, s3_url))
    ]
    assert ids[0] == ids[1]


def test_a_run_id_is_taken_once_on_s3(folder: Path, s3_url: str) -> None:
    with mock_endpoint() as endpoint:
        config = write_config(folder, endpoint.url, rows=5)
        gage_eval.run(str(config), store=s3_url, run_id="mine")
        with pytest.raises(InputError, match="a run 'mine' exists already"):
            gage_eval.run(str(config), store=s3_url, run_id="mine")


def test_a_run_whose_first_word_arrived_unanswered_is_not_taken_for_another_s(
    s3_url: str, s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_proxy(s3_server, every=2, faults=("lost",)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        config = ConfigRecord(source="mine.yaml", digest="0", text="")
        record = RunRecord(
            status="running", created=datetime.now(UTC), name="small", tasks=[], options={}, config=config
        )
        for name in ("one", "two", "three", "four"):
            assert RunFolder.create(Locations(s3_url, s3_url), name, record).run_id == name


def test_rows_in_error_are_asked_again_on_s3(folder: Path, s3_url: str) -> None:
    from gage_eval.runs import run_inline
    from gage_eval.runs.resume import resumed

    with mock_endpoint(fault={"500": 0.3}) as endpoint:
        port = endpoint.root.rsplit(":", 1)[1]
        config = write_config(folder, endpoint.url, rows=30, backend={"max_attempts": 1})
        with pytest.raises(RunFailed, match="ended in an error"):
            gage_eval.run(str(config), store=s3_url, run_id="retried")
    with mock_endpoint(port=port) as endpoint:
        outcome = run_inline(resumed("retried", store=s3_url, only_errors=True))
        requests = endpoint.stats()["requests"]

    assert 0 < requests < 30
    assert outcome.summary.tasks[0].responses["ok"] == 30
