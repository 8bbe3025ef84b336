"""The HTTP recorder: batches arrive whole and in order, and nothing that it does harms a run."""

import socket
from pathlib import Path

import orjson
import pytest

import gage_eval
from gage_eval.observability.events import RunWarning
from gage_eval.observability.http_recorder import HTTPRecorder, HTTPRecorderConfig
from gage_eval.observability.writer import RecordedEvent
from gage_eval.runs.appended import LocalFile
from tests.support.recorders import bad_recorder, recorder
from tests.support.waiting import Stopwatch
from tests.support.workspace import write_config, write_rows


def events(*numbers: int) -> list[RecordedEvent]:
    return [RecordedEvent(0.0, RunWarning("w"), orjson.dumps({"n": number})) for number in numbers]


def kept(file: Path) -> list[int]:
    return [orjson.loads(line)["n"] for line in file.read_bytes().splitlines()] if file.exists() else []


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.observability.http_recorder.PAUSES_S", (0.0, 0.0))


def test_events_arrive_in_batches_of_at_most_the_size_in_their_order(tmp_path: Path) -> None:
    with recorder() as server:
        sink = HTTPRecorder(HTTPRecorderConfig(server.url, 4, headers={"X-Team": "a"}), LocalFile(tmp_path / "unsent"))
        sink.write(events(*range(10)))
        sink.close()
        assert [event["n"] for event in server.events] == list(range(10))
        sizes = [len(orjson.loads(body)["events"]) for _, _, body in server.bodies]
        assert [headers["x-team"] for _, headers, _ in server.bodies] == ["a"] * 3
    assert sizes == [4, 4, 2]
    assert not (tmp_path / "unsent").exists()


def test_a_batch_that_is_refused_twice_arrives_all_the_same(tmp_path: Path) -> None:
    with recorder() as server:
        server.refuse = 2
        sink = HTTPRecorder(HTTPRecorderConfig(server.url, 2), LocalFile(tmp_path / "unsent"))
        sink.write(events(1, 2))
        sink.close()
        assert (server.tried, [event["n"] for event in server.events]) == (3, [1, 2])
    assert not (tmp_path / "unsent").exists()


def test_what_is_not_delivered_is_in_the_file_and_after_too_many_failures_nothing_is_sent(tmp_path: Path) -> None:
    with recorder() as server:
        server.refuse = 10**6
        sink = HTTPRecorder(HTTPRecorderConfig(server.url, 1, fail_pct=10), LocalFile(tmp_path / "unsent"))
        sink.write(events(*range(12)))
        sink.close()
        # More than 10 % of 20 batches: the third failure, after three attempts each.
        assert server.tried == 9
    assert sorted(kept(tmp_path / "unsent")) == list(range(12))


def test_a_share_below_the_limit_keeps_sending(tmp_path: Path) -> None:
    with recorder() as server:
        server.refuse = 3
        sink = HTTPRecorder(HTTPRecorderConfig(server.url, 1, fail_pct=5), LocalFile(tmp_path / "unsent"))
        sink.write(events(*range(12)))
        sink.close()
        assert [event["n"] for event in server.events] == list(range(1, 12))
    assert kept(tmp_path / "unsent") == [0]


def test_closing_waits_for_a_server_that_hangs_only_as_long_as_for_one_request(tmp_path: Path) -> None:
    with bad_recorder("hangs") as url:
        sink = HTTPRecorder(HTTPRecorderConfig(url, 5, timeout_s=1.0), LocalFile(tmp_path / "unsent"))
        with Stopwatch() as writing:
            sink.write(events(*range(100)))
        with Stopwatch() as closing:
            sink.close()
        assert writing.seconds < 1.0
        assert closing.seconds < 6.0
    assert sorted(kept(tmp_path / "unsent")) == list(range(100))


@pytest.mark.parametrize("behaviour", ["hangs", "garbage", "closes", "nobody"])
def test_a_run_ends_normally_and_its_events_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GAGE_EVAL_REPORT_HTTP_TIMEOUT", "0.5")
    write_rows(tmp_path)
    write_config(tmp_path)
    if behaviour == "nobody":
        with socket.create_server(("127.0.0.1", 0)) as free:
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setenv("GAGE_EVAL_REPORT_HTTP_URL", url)
        run = gage_eval.run("mine.yaml", store="store")
    else:
        with bad_recorder(behaviour) as url:
            monkeypatch.setenv("GAGE_EVAL_REPORT_HTTP_URL", url)
            run = gage_eval.run("mine.yaml", store="store")
    folder = Path(run.folder)
    assert orjson.loads((folder / "run.json").read_bytes())["status"] == "completed"
    written = [orjson.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
    unsent = [orjson.loads(line) for line in (folder / "events_unsent.jsonl").read_bytes().splitlines()]
    # The recorder gives up in a thread of its own: its warning may follow the end of the run.
    assert [event["type"] for event in written if event["type"] != "log"][-1] == "run_finished"
    assert {event["event_id"] for event in unsent} == {event["event_id"] for event in written}


def test_a_recorder_that_a_config_names_gets_the_run_s_events_from_the_level_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENTS_TOKEN", "Bearer planted-canary")
    write_rows(tmp_path)
    with recorder() as server:
        sink = {"type": "http", "url": server.url, "params": {"headers": {"Authorization": "env:EVENTS_TOKEN"}}}
        write_config(tmp_path, observability={"level": "INFO", "sinks": [sink]})
        run = gage_eval.run("mine.yaml", store="store")
        assert {headers["authorization"] for _, headers, _ in server.bodies} == {"Bearer planted-canary"}
        sent = [event["event_id"] for event in server.events]
    folder = Path(run.folder)
    written = [orjson.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
    debug = {"part_written", "stage_progress"}
    assert sent == [event["event_id"] for event in written if event["type"] not in debug]
    assert not (folder / "events_unsent.jsonl").exists()
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"planted-canary" in file.read_bytes()]
