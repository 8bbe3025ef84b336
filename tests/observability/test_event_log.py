"""events.jsonl: which events a run has, what each says, and what they cost the run."""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from support.endpoint import mock_endpoint
from support.runs import write_config as write_sums
from support.waiting import PATIENCE_S

import gage_eval
from gage_eval.base.errors import GageError, RunFailed
from gage_eval.observability import writer
from gage_eval.observability.events import PartWritten, RunWarning
from gage_eval.observability.sample_events import RowRejected
from gage_eval.observability.writer import EventWriter, RecordedEvent
from gage_eval.runs import run_inline
from gage_eval.runs.resume import resumed
from gage_eval.store import Store
from tests.support.workspace import config, write_config, write_rows

Events = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def events_of(run_id: str) -> Events:
    return [orjson.loads(line) for line in Path(f"store/runs/{run_id}/events.jsonl").read_bytes().splitlines()]


def of_type(events: Events, *types: str) -> Events:
    return [event for event in events if event["type"] in types]


def test_a_run_tells_of_itself_its_tasks_its_stages_and_its_parts(here: Path) -> None:
    write_rows(here)
    write_config(here)
    gage_eval.run("mine.yaml", store="store", run_id="first")
    events = events_of("first")
    assert set(events[0]) == {"event_id", "time", "type", "run_id", "task_id", "stage", "sample_id", "payload"}
    assert len({event["event_id"] for event in events}) == len(events)
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    assert {event["run_id"] for event in events} == {"first"}
    assert [events[0]["type"], events[1]["type"], events[-1]["type"]] == ["run_started", "task_started", "run_finished"]
    stages = ["load", "standardize", "preprocess", "infer", "judge", "auto_eval", "report"]
    assert [event["stage"] for event in of_type(events, "stage_started")] == stages
    assert [event["stage"] for event in of_type(events, "stage_finished")] == stages
    (answers,) = [event for event in of_type(events, "part_written") if event["payload"]["output"] == "responses"]
    assert (answers["stage"], answers["payload"]) == ("infer", {"output": "responses", "part": 0, "rows": 6})
    (metric,) = of_type(events, "metric")
    assert metric["payload"] == {
        "metric": "exact_match", "n": 6, "value": pytest.approx(1 / 6),
        "ci_low": pytest.approx(0.030, abs=0.001), "ci_high": pytest.approx(0.564, abs=0.001),
    }  # fmt: skip


def test_samples_are_events_by_the_rate_and_errors_always(here: Path) -> None:
    told: dict[str, Events] = {}
    failed: dict[str, set[str]] = {}
    with mock_endpoint(fault={"context": 0.1}) as endpoint:
        for name, rate in (("none", 0.0), ("some", 0.3), ("all", 1.0)):
            section = {"sample_rate": rate, "stage_sample_rates": {"auto_eval": 0.0}}
            task = {"task_id": "sums", "dataset_id": "sums", "max_error_share": 1.0}
            write_sums(here, endpoint.url, rows=200, observability=section, tasks=[task])
            run = gage_eval.run("sums.yaml", store=name, output_dir="store/runs", run_id=name)
            responses = run.responses("sums").to_pylist()
            failed[name] = {row["sample_id"] for row in responses if row["status"] == "error"}
            told[name] = of_type(events_of(name), "sample_answered")
    assert failed["none"]
    assert {event["sample_id"] for event in told["none"]} == failed["none"]
    assert len(told["all"]) == 200
    assert failed["some"] <= {event["sample_id"] for event in told["some"]}
    answered = [event for event in told["some"] if event["payload"]["status"] == "ok"]
    assert 30 < len(answered) < 90
    assert answered[0]["payload"] | {"latency_ms": None} == {
        "replicate": 0, "backend": "openai_http", "model": "mock", "kind": "chat", "status": "ok", "source": "sent",
        "attempts": 1, "latency_ms": None, "ttft_ms": None, "prompt_tokens": answered[0]["payload"]["prompt_tokens"],
        "completion_tokens": answered[0]["payload"]["completion_tokens"], "finish_reason": "stop", "error_kind": None,
        "error": None,
    }  # fmt: skip
    failure = told["none"][0]
    assert (failure["task_id"], failure["stage"], failure["payload"]["error_kind"]) == (
        "sums",
        "infer",
        "context_too_long",
    )
    assert "context" in failure["payload"]["error"]
    # Rows without an answer are unscored, which is an error too, although auto_eval samples nothing.
    scored = of_type(events_of("all"), "sample_scored")
    assert {event["sample_id"] for event in scored} == failed["all"]
    assert {event["payload"]["status"] for event in scored} == {"unscored"}


def test_the_variable_makes_every_sample_an_event_also_reused_and_repeated_ones(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGE_EVAL_OBSERVABILITY", "1")
    write_rows(here)
    twice = b"".join(orjson.dumps({"id": f"t{n}", "question": "same", "answer": "2"}) + b"\n" for n in range(2))
    (here / "rows.jsonl").write_bytes((here / "rows.jsonl").read_bytes() + twice)
    write_config(here)
    gage_eval.run("mine.yaml", store="store", run_id="first")
    assert Counter(event["payload"]["source"] for event in of_type(events_of("first"), "sample_answered")) == {
        "sent": 7, "repeated": 1
    }  # fmt: skip
    assert len(of_type(events_of("first"), "sample_scored")) == 8
    write_rows(here, 10)
    gage_eval.run("mine.yaml", store="store", run_id="second")
    assert Counter(event["payload"]["source"] for event in of_type(events_of("second"), "sample_answered")) == {
        "reused": 6, "sent": 4
    }  # fmt: skip


def test_a_retry_names_its_sample_and_a_limit_that_gives_way_its_endpoint(here: Path) -> None:
    with mock_endpoint(fault={"429": 0.5}, retry_after=0) as endpoint:
        write_sums(here, endpoint.url, rows=120, backend={"max_concurrency": 64})
        gage_eval.run("sums.yaml", store="store", run_id="first")
    events = events_of("first")
    retries = of_type(events, "retry")
    assert len(retries) > 30
    assert {(event["task_id"], event["stage"], event["payload"]["kind"]) for event in retries} == {
        ("sums", "infer", "rate_limited")
    }
    assert all(event["sample_id"].startswith("sum-") for event in retries)
    changes = of_type(events, "concurrency_changed")
    assert changes[0]["payload"]["before"] == 64
    assert changes[0]["payload"]["after"] < 64
    assert changes[0]["payload"]["endpoint"] == endpoint.url


def test_rejects_and_failing_adapters_are_events_with_the_reason(here: Path) -> None:
    (here / "looks.py").write_text("def text(record):\n    return record['question'] + record['more']\n")
    rows = [
        {"id": "a", "question": "1 + 1", "more": " = ?", "answer": "2"},
        {"id": "b", "question": "x", "answer": "2"},
    ]
    (here / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows) + b"[1]\n")
    params = {"path": "rows.jsonl", "on_reject": "skip", "doc_to_text": "looks.py:text"}
    write_config(here, datasets=[{"dataset_id": "sums", "params": params}])
    gage_eval.run("mine.yaml", store="store", run_id="first")
    (reject,) = of_type(events_of("first"), "reject")
    assert (reject["stage"], reject["payload"]["line"]) == ("standardize", 3)
    assert reject["payload"]["reason"] == "the record is a list, not a JSON object."
    (failed,) = of_type(events_of("first"), "data_adapter_failed")
    assert failed["payload"]["adapter"] == "looks.py:text"
    assert (failed["payload"]["row_index"], failed["payload"]["line"]) == (1, 2)
    assert "more" in failed["payload"]["reason"]


def test_a_task_and_a_run_that_fail_say_why(here: Path) -> None:
    with mock_endpoint(fault={"context": 1.0}) as endpoint:
        write_sums(here, endpoint.url, rows=5)
        with pytest.raises(RunFailed):
            gage_eval.run("sums.yaml", store="store", run_id="first")
    events = events_of("first")
    assert [event["type"] for event in events[-4:]] == ["stage_failed", "task_failed", "usage", "run_failed"]
    assert events[-3]["task_id"] == "sums"
    assert "5 of 5 rows" in events[-1]["payload"]["error"]


def test_log_messages_are_events_from_the_level_on(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plugin = "import logging\nlog = logging.getLogger('gage_eval.mine')\n"
    plugin += "def text(record):\n    log.info('seen %s', record['id'])\n    log.debug('deep')\n    return 'q'\n"
    (here / "looks.py").write_text(plugin)
    write_rows(here, 2)
    params = {"path": "rows.jsonl", "doc_to_text": "looks.py:text"}
    write_config(here, datasets=[{"dataset_id": "sums", "params": params}])

    def logged(run_id: str) -> list[tuple[str, str]]:
        gage_eval.run("mine.yaml", store=f"store-{run_id}", output_dir="store/runs", run_id=run_id)
        lines = of_type(events_of(run_id), "log")
        return [
            (line["payload"]["level"], line["payload"]["message"])
            for line in lines
            if "mine" in line["payload"]["logger"]
        ]

    before = logging.getLogger("gage_eval").level, logging.getLogger("gage_eval").propagate
    assert logged("usual") == [("INFO", "seen s0"), ("INFO", "seen s1")]
    monkeypatch.setenv("GAGE_EVAL_LOG_SINK_LEVEL", "DEBUG")
    assert len(logged("debug")) == 4
    monkeypatch.setenv("GAGE_EVAL_ENABLE_LOG_SINK", "0")
    assert logged("off") == []
    assert "seen" not in capfd.readouterr().err, "what the console shows stays the same"
    assert (logging.getLogger("gage_eval").level, logging.getLogger("gage_eval").propagate) == before


def test_warnings_reach_other_handlers_once_during_a_run(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    (here / "looks.py").write_text(
        "import logging\ndef text(record):\n    logging.getLogger('gage_eval.mine').warning('once')\n    return 'q'\n"
    )
    write_rows(here, 1)
    params = {"path": "rows.jsonl", "doc_to_text": "looks.py:text"}
    write_config(here, datasets=[{"dataset_id": "sums", "params": params}])
    gage_eval.run("mine.yaml", store="store", run_id="first")
    assert [record.message for record in caplog.records if record.name == "gage_eval.mine"] == ["once"]


def test_sinks_of_the_config_get_the_events(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_rows(here)
    sinks = [
        {"type": "file", "output_path": "more.jsonl"},
        {"type": "file", "output_path": str(here / "elsewhere" / "all.jsonl")},
        {"type": "console"},
    ]
    write_config(here, observability={"level": "DEBUG", "sinks": sinks})
    gage_eval.run("mine.yaml", store="store", run_id="first")
    own = Path("store/runs/first/events.jsonl").read_bytes()
    assert Path("store/runs/first/more.jsonl").read_bytes() == own
    assert (here / "elsewhere" / "all.jsonl").read_bytes() == own
    shown = capfd.readouterr().err
    assert "INFO stage_started sums/infer" in shown
    assert len(shown.splitlines()) == len(own.splitlines())
    write_config(here, observability={"enabled": False, "sinks": sinks})
    gage_eval.run("mine.yaml", store="store", run_id="second")
    assert not Path("store/runs/second/more.jsonl").exists()
    assert Path("store/runs/second/events.jsonl").exists()


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ({"type": "http"}, "an http sink needs a 'url'"),
        ({"type": "file"}, "a file sink needs an 'output_path'"),
        ({"type": "console", "url": "http://a"}, "a console sink has no 'url'"),
        ({"type": "http", "url": "ftp://a"}, "'url' starts with http:// or https://"),
        ({"type": "http", "url": "http://a", "params": {"service_name": "x"}}, "has no parameter 'service_name'"),
        (
            {"type": "http", "url": "http://a", "params": {"headers": {"X": "env:NOT_SET_HERE"}}},
            "NOT_SET_HERE is not set",
        ),
        ({"type": "http", "url": "http://a", "params": {"headers": {"api-key": "sk-1"}}}, "api-key"),
    ],
)
def test_a_sink_that_cannot_work_is_one_sentence_before_the_run(here: Path, sink: dict[str, Any], words: str) -> None:
    write_rows(here)
    with pytest.raises(GageError, match=words):
        gage_eval.run(config(observability={"sinks": [sink]}), store="store")


def test_a_run_that_cannot_open_a_sink_has_failed_and_can_be_resumed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(here)
    sink = {"type": "http", "url": "http://127.0.0.1:9", "params": {"headers": {"X": "env:NOT_SET_HERE"}}}
    (here / "mine.yaml").write_text(yaml.safe_dump(config(observability={"sinks": [sink]})))
    with pytest.raises(GageError, match="NOT_SET_HERE is not set"):
        gage_eval.run("mine.yaml", store="store", run_id="first")
    first = gage_eval.open_run("first", store="store")
    assert first.status == "failed"
    monkeypatch.setenv("NOT_SET_HERE", "x")
    run_inline(resumed("first", store="store"))
    assert gage_eval.open_run("first", store="store").status == "completed"


def test_events_reach_s3_while_the_run_is_under_way(here: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.runs.appended.UPLOAD_EVERY_S", 0.05)
    objects = Store.open(s3_url).objects
    seen = threading.Event()

    def watch() -> None:
        while not seen.wait(0.05):
            try:
                if (
                    b'"stage":"infer"' in (text := objects.get("runs/first/events.jsonl"))
                    and b"run_finished" not in text
                ):
                    seen.set()
            except FileNotFoundError:
                pass

    with mock_endpoint(latency_ms=1500) as endpoint:
        write_sums(here, endpoint.url, rows=4)
        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        gage_eval.run("sums.yaml", store=s3_url, run_id="first")
    assert seen.is_set()
    last = objects.get("runs/first/events.jsonl").splitlines()[-1]
    assert orjson.loads(last)["type"] == "run_finished"


# The writer


class MemorySink:
    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.events: list[RecordedEvent] = []
        self._act = act

    def write(self, events: Sequence[RecordedEvent]) -> None:
        self._act()
        self.events += events

    def close(self) -> None:
        pass


def part(number: int) -> PartWritten:
    return PartWritten("t", "load", "raw", number, 1)


def test_a_slow_sink_never_holds_up_who_tells_and_what_was_dropped_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_WAITING", 100)
    monkeypatch.setattr(writer, "MOST_ERRORS_WAITING", 200)
    go = threading.Event()
    sink = MemorySink(lambda: go.wait(PATIENCE_S) and None)
    log = EventWriter("r", [sink])
    log.emit(RunWarning("first"))
    while log._waiting:
        time.sleep(0.001)
    for number in range(1_000):
        log.emit(part(number))
    for number in range(1_000):
        log.emit(RowRejected("t", "load", None, number, None, None, "r"))
    log.emit(RunWarning("last"))
    assert sink.events == [], "the sink is still at its first event"
    go.set()
    log.close()
    kinds = Counter(row.event.name for row in sink.events)
    assert kinds == {"warning": 2, "part_written": 100, "events_dropped": 1}
    dropped = [row.event.payload()["count"] for row in sink.events if row.event.name == "events_dropped"]
    assert dropped == [1_900]


def test_a_sink_that_fails_gets_nothing_more_and_the_others_everything(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise OSError("gone")

    bad, good = MemorySink(fail), MemorySink()
    log = EventWriter("r", [bad, good])
    for number in range(5):
        log.emit(part(number))
    log.close()
    assert [row.event for row in good.events] == [part(number) for number in range(5)]
    assert bad.events == []
    assert "events no longer go to MemorySink: gone" in caplog.text


def test_text_that_json_cannot_hold_and_numbers_beyond_64_bits_are_written() -> None:
    sink = MemorySink()
    log = EventWriter("r", [sink])
    log.emit(RunWarning("\ud800"))
    log.emit(part(2**80))
    log.close()
    assert [json.loads(row.line)["payload"] for row in sink.events] == [
        {"message": "\ud800"},
        {"output": "raw", "part": 2**80, "rows": 1},
    ]
