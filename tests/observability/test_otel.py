"""OpenTelemetry: what a collector gets of a run. The collector is a server that keeps what it is sent."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import mock_endpoint
from support.runs import write_config

import gage_eval
from gage_eval.base.errors import InputError
from tests.support.recorders import Recorder, bad_recorder, recorder

traces = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="no extra otel here")
metrics = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")


# Its threads may outlive a test, and would write to the standard error of another one.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
logging.getLogger("opentelemetry").propagate = False


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spans(server: Recorder) -> list[Any]:
    collected = []
    for path, _, body in server.bodies:
        if path == "/v1/traces":
            for group in traces.ExportTraceServiceRequest.FromString(body).resource_spans:
                collected += [span for scope in group.scope_spans for span in scope.spans]
    return collected


def numbers(server: Recorder) -> dict[str, Any]:
    """The last numbers of each metric."""
    last = {}
    for path, _, body in server.bodies:
        if path == "/v1/metrics":
            for group in metrics.ExportMetricsServiceRequest.FromString(body).resource_metrics:
                last |= {metric.name: metric for scope in group.scope_metrics for metric in scope.metrics}
    return last


def values(attributes: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        return [plain(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)

    return {attribute.key: plain(attribute.value) for attribute in attributes}


@pytest.fixture
def server() -> Iterator[Recorder]:
    with recorder() as running:
        yield running


def test_a_run_is_a_trace_of_tasks_stages_and_calls_with_the_conventions_of_generative_ai(
    here: Path, server: Recorder
) -> None:
    sink = {"type": "otel", "url": server.url, "params": {"service_name": "nightly", "headers": {"X-Team": "a"}}}
    with mock_endpoint(fault={"500": 0.05}) as endpoint:
        write_config(here, endpoint.url, rows=60, observability={"sample_rate": 0.2, "sinks": [sink]})
        run = gage_eval.run("sums.yaml", store="store", run_id="first")
    sent = spans(server)
    by_id = {span.span_id: span for span in sent}
    (whole,) = [span for span in sent if span.name == "run sums"]
    (task,) = [span for span in sent if span.name == "task sums"]
    stages = {span.name: span for span in sent if span.parent_span_id == task.span_id}
    calls = [span for span in sent if span.name == "chat mock"]
    assert task.parent_span_id == whole.span_id
    assert set(stages) == {"load", "standardize", "preprocess", "infer", "judge", "auto_eval", "report"}
    assert len(by_id) == 2 + 7 + len(calls)
    assert 3 <= len(calls) <= 30
    assert {span.parent_span_id for span in calls} == {stages["infer"].span_id}
    assert all(whole.start_time_unix_nano <= span.start_time_unix_nano < span.end_time_unix_nano for span in calls)
    said = values(calls[0].attributes)
    assert said | {"gage_eval.sample_id": "", "gage_eval.attempts": 0} == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "mock",
        "gen_ai.usage.input_tokens": said["gen_ai.usage.input_tokens"],
        "gen_ai.usage.output_tokens": said["gen_ai.usage.output_tokens"],
        "gen_ai.response.finish_reasons": ["stop"], "gage_eval.task_id": "sums", "gage_eval.stage": "infer",
        "gage_eval.sample_id": "", "gage_eval.replicate": 0, "gage_eval.status": "ok", "gage_eval.attempts": 0,
    }  # fmt: skip
    (score,) = [event for event in whole.events if event.name == "gen_ai.evaluation.result"]
    assert values(score.attributes)["gen_ai.evaluation.score.value"] == run.summary.metrics[0].value
    assert {headers["x-team"] for _, headers, _ in server.bodies} == {"a"}
    first = traces.ExportTraceServiceRequest.FromString(server.bodies[0][2]).resource_spans[0].resource
    assert values(first.attributes)["service.name"] == "nightly"


def test_metrics_count_every_answer_whatever_the_rate(here: Path, server: Recorder) -> None:
    with mock_endpoint(fault={"500": 0.2}) as endpoint:
        sinks = [{"type": "otel", "url": server.url}]
        write_config(here, endpoint.url, rows=60, observability={"sample_rate": 0.0, "sinks": sinks})
        run = gage_eval.run("sums.yaml", store="store", run_id="first")
        attempts = endpoint.stats()["requests"]
    latest = numbers(server)
    durations = latest["gen_ai.client.operation.duration"].histogram.data_points
    assert sum(point.count for point in durations) == 60
    tokens = {
        values(point.attributes)["gen_ai.token.type"]: point.sum
        for point in latest["gen_ai.client.token.usage"].histogram.data_points
    }
    summed = run.summary.tasks[0].tokens
    assert tokens == {"input": summed.prompt, "output": summed.completion}
    assert sum(point.as_int for point in latest["gage_eval.retries"].sum.data_points) == attempts - 60 > 0
    assert [span for span in spans(server) if span.name.startswith("chat")] == []
    took = {
        values(point.attributes)["gen_ai.token.type"]: point for point in latest["gage_eval.run.tokens"].sum.data_points
    }
    assert {kind: point.as_int for kind, point in took.items()} == tokens
    assert values(took["input"].attributes).items() >= {"gage_eval.run_id": "first", "gage_eval.config": "sums"}.items()
    (seconds,) = latest["gage_eval.run.duration"].sum.data_points
    assert seconds.as_double > 0
    assert "gage_eval.run.cost" in latest


def test_a_failed_call_and_a_failed_run_are_spans_in_error(here: Path, server: Recorder) -> None:
    with mock_endpoint(fault={"context": 1.0}) as endpoint:
        write_config(here, endpoint.url, rows=3, observability={"sinks": [{"type": "otel", "url": server.url}]})
        with pytest.raises(gage_eval.base.errors.RunFailed):
            gage_eval.run("sums.yaml", store="store", run_id="first")
    sent = spans(server)
    failed = {span.name for span in sent if span.status.code == 2}
    assert failed == {"run sums", "task sums", "chat mock"}
    errors = {values(span.attributes)["error.type"] for span in sent if span.name == "chat mock"}
    assert errors == {"context_too_long"}


@pytest.mark.parametrize("behaviour", ["hangs", "garbage"])
def test_a_collector_that_takes_nothing_delays_the_end_of_a_run_a_little_and_nothing_else(
    here: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.setattr("gage_eval.observability.otel.SHUTDOWN_S", 0.5)
    with mock_endpoint() as endpoint, bad_recorder(behaviour) as url:
        sinks = [{"type": "otel", "url": url.removesuffix("/events")}]
        write_config(here, endpoint.url, rows=5, observability={"sinks": sinks})
        run = gage_eval.run("sums.yaml", store="store", run_id="first")
    assert run.summary.sample_count == 5
    assert b"run_finished" in Path("store/runs/first/events.jsonl").read_bytes()


def test_without_opentelemetry_the_sink_is_refused_with_the_command_that_installs_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.setenv("GAGE_EVAL_OTEL", "1")
    write_config(here, "http://127.0.0.1:9/v1", rows=3)
    with pytest.raises(InputError, match=r"OpenTelemetry sink needs opentelemetry-sdk, which is not installed: .*otel"):
        gage_eval.run("sums.yaml", store="store", run_id="first")
