"""Traces and metrics of a run for OpenTelemetry, with its semantic conventions for generative AI.

    run NAME                one span per run
    └─ task TASK            one per task
       └─ STAGE             one per stage
          └─ chat MODEL     one per answer that was asked in this run, as far as samples are events; failed ones always

Metrics count all answers that were asked in this run: ``gen_ai.client.operation.duration``,
``gen_ai.client.token.usage`` and ``gage_eval.retries``. What a run took and waited for, and the starts of engines are
metrics too (``gage_eval.run.…``, ``gage_eval.engine.…``), by run and by suite or config. No span holds a prompt or an
answer.
"""

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gage_eval.base.version import __version__
from gage_eval.extend.extras import missing
from gage_eval.models.client.types import KINDS
from gage_eval.observability.events import (
    EngineOutOfMemory,
    EngineStarted,
    Event,
    MetricReported,
    RunFailed,
    RunFinished,
    RunStarted,
    RunUsage,
    StageFailed,
    StageFinished,
    StageStarted,
    TaskFailed,
    TaskFinished,
    TaskStarted,
)
from gage_eval.observability.sample_events import RequestRetried, SampleAnswered
from gage_eval.observability.writer import RecordedEvent

if TYPE_CHECKING:
    from opentelemetry.trace import Span

SHUTDOWN_S = 10.0

# Bucket boundaries that the conventions recommend.
_DURATIONS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TOKENS = [4**power for power in range(14)]

_PROVIDERS = {"openai_http": "openai"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenTelemetryConfig:
    """The destination of traces and metrics.

    Attributes:
        endpoint: base URL of a collector that takes OTLP over HTTP; None for what the ``OTEL_…`` variables name, or the
            collector on this machine.
        headers: sent with each request.
        service_name: the service to report as; `OTEL_SERVICE_NAME` counts more.
    """

    endpoint: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    service_name: str = "gage-eval"


class OpenTelemetrySink:
    """Makes spans and metrics of events. OpenTelemetry exports them in separate threads.

    Raises:
        InputError: OpenTelemetry is not installed.
    """

    def __init__(self, config: OpenTelemetryConfig) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ModuleNotFoundError:
            raise missing("the OpenTelemetry sink", "opentelemetry-sdk", "otel") from None
        base = None if config.endpoint is None else config.endpoint.rstrip("/")
        headers = dict(config.headers) or None
        service = os.environ.get("OTEL_SERVICE_NAME") or config.service_name
        resource = Resource.create({"service.name": service, "service.version": __version__})
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        spans = OTLPSpanExporter(None if base is None else f"{base}/v1/traces", headers=headers)
        self._traces.add_span_processor(BatchSpanProcessor(spans))
        numbers = OTLPMetricExporter(None if base is None else f"{base}/v1/metrics", headers=headers)
        self._metrics = MeterProvider([PeriodicExportingMetricReader(numbers)], resource, shutdown_on_exit=False)
        self._tracer = self._traces.get_tracer("gage_eval", __version__)
        meter = self._metrics.get_meter("gage_eval", __version__)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "Time of the attempt that gave the answer",
            explicit_bucket_boundaries_advisory=_DURATIONS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of prompts and answers",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._retries = meter.create_counter("gage_eval.retries", "{attempt}", "Attempts that another one followed")
        self._queued = meter.create_histogram("gage_eval.run.queued", "s", "Time that a run waited for its worker")
        self._run_seconds = meter.create_counter("gage_eval.run.duration", "s", "Time of runs")
        self._run_tokens = meter.create_counter("gage_eval.run.tokens", "{token}", "Tokens that runs took")
        self._run_cost = meter.create_counter("gage_eval.run.cost", "1", "Cost of runs, in their own currency")
        self._run_gpus = meter.create_counter("gage_eval.run.gpu_time", "s", "Time of runs on GPUs, times the GPUs")
        self._engine_starts = meter.create_histogram("gage_eval.engine.start", "s", "Time until an engine answered")
        self._engine_memory = meter.create_counter("gage_eval.engine.out_of_memory", "{start}", "Starts without memory")
        # Of the run, for all metrics of runs and engines.
        self._of_run: dict[str, str] = {}
        # Open spans: of the run under (None, None), of tasks under (task, None).
        self._open: dict[tuple[str | None, str | None], Span] = {}

    def write(self, events: Sequence[RecordedEvent]) -> None:
        for record in events:
            self._take(record.event, round(record.time * 1e9))

    def close(self) -> None:
        """End open spans, and export what is left, for a limited time."""
        for stage_id in list(self._open):
            self._end(stage_id)
        ending = threading.Thread(target=self._shut_down, name="gage-eval-otel", daemon=True)
        ending.start()
        ending.join(SHUTDOWN_S)
        if ending.is_alive():
            _log.warning("OpenTelemetry did not take all traces and metrics within %g s.", SHUTDOWN_S)

    def _shut_down(self) -> None:
        self._traces.shutdown()
        self._metrics.shutdown(SHUTDOWN_S * 1000)

    def _take(self, event: Event, moment: int) -> None:
        match event:
            case SampleAnswered():
                self._answered(event, moment)
            case RequestRetried():
                self._retries.add(1, {"error.type": event.kind})
            case RunStarted():
                self._of_run = {"gage_eval.run_id": event.run_id, "gage_eval.config": event.config_name}
                self._start((None, None), f"run {event.config_name}", moment, self._of_run)
                if event.queued_s is not None:
                    self._queued.record(event.queued_s, self._of_run)
            case RunUsage():
                self._used(event)
            case EngineStarted():
                self._engine_starts.record(event.seconds, {**self._of_run, "gage_eval.backend": event.backend})
            case EngineOutOfMemory():
                self._engine_memory.add(1, self._of_run)
            case TaskStarted() | StageStarted():
                task_id, stage = event.stage_id
                about = {"gage_eval.task_id": task_id or ""} | ({} if stage is None else {"gage_eval.stage": stage})
                self._start(event.stage_id, stage or f"task {task_id}", moment, about)
            case StageFinished():
                counts = {f"gage_eval.rows.{name}": count for name, count in event.result.counts.items()}
                self._end(event.stage_id, moment, {"gage_eval.cached": event.result.cached, **counts})
            case StageFailed() | TaskFailed():
                self._end(event.stage_id, moment, failed=(event.type, event.error))
            case RunFailed():
                self._end((None, None), moment, failed=(event.status, event.error))
            case TaskFinished() | RunFinished():
                self._end(event.stage_id, moment)
            case MetricReported():
                self._evaluated(event, moment)

    def _used(self, event: RunUsage) -> None:
        self._run_seconds.add(event.seconds, self._of_run)
        for kind, count in (("input", event.prompt_tokens), ("output", event.completion_tokens)):
            self._run_tokens.add(count, {**self._of_run, "gen_ai.token.type": kind})
        self._run_cost.add(event.cost, self._of_run)
        if event.gpu_seconds is not None:
            self._run_gpus.add(event.gpu_seconds, self._of_run)

    def _start(
        self, stage_id: tuple[str | None, str | None], name: str, moment: int, attributes: Mapping[str, Any]
    ) -> None:
        from opentelemetry.trace import set_span_in_context

        # A few-shot pool's stages have another id, with a colon; they belong to its task.
        task_id, stage = stage_id
        owners = [((task_id or "").partition(":")[0], None)] if stage is not None else []
        parent = next((self._open[id_] for id_ in [*owners, (None, None)] if id_ in self._open), None)
        context = None if parent is None else set_span_in_context(parent)
        self._open[stage_id] = self._tracer.start_span(name, context, attributes=attributes, start_time=moment)

    def _end(
        self,
        stage_id: tuple[str | None, str | None],
        moment: int | None = None,
        attributes: Mapping[str, Any] | None = None,
        *,
        failed: tuple[str, str] | None = None,
    ) -> None:
        from opentelemetry.trace import StatusCode

        span = self._open.pop(stage_id, None)
        if span is None:
            return
        span.set_attributes(attributes or {})
        if failed is not None:
            span.set_attribute("error.type", failed[0])
            span.set_status(StatusCode.ERROR, failed[1])
        span.end(moment)

    def _answered(self, event: SampleAnswered, moment: int) -> None:
        if event.source != "sent" or not event.attempts:
            return
        operation = KINDS.get(event.kind or "", KINDS["chat"]).operation
        about: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _PROVIDERS.get(event.backend, event.backend),
            "gen_ai.request.model": event.model,
        }
        if event.status == "error":
            about["error.type"] = event.error_kind or "_OTHER"
        if event.latency_ms is not None:
            self._duration.record(event.latency_ms / 1000, about)
        for kind, count in (("input", event.prompt_tokens), ("output", event.completion_tokens)):
            if count is not None:
                self._tokens.record(count, {**about, "gen_ai.token.type": kind})
        if event.sampled:
            self._call_span(event, operation, about, moment)

    def _call_span(self, event: SampleAnswered, operation: str, about: Mapping[str, Any], moment: int) -> None:
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

        parent = self._open.get(event.stage_id)
        attributes = {
            **about,
            "gen_ai.usage.input_tokens": event.prompt_tokens,
            "gen_ai.usage.output_tokens": event.completion_tokens,
            "gen_ai.response.finish_reasons": None if event.finish_reason is None else [event.finish_reason],
            "gen_ai.response.time_to_first_chunk": None if event.ttft_ms is None else event.ttft_ms / 1000,
            "gage_eval.task_id": event.task_id,
            "gage_eval.stage": event.stage,
            "gage_eval.sample_id": event.sample_id,
            "gage_eval.replicate": event.replicate,
            "gage_eval.status": event.status,
            "gage_eval.attempts": event.attempts,
        }
        span = self._tracer.start_span(
            f"{operation} {event.model}",
            None if parent is None else set_span_in_context(parent),
            SpanKind.CLIENT,
            {name: value for name, value in attributes.items() if value is not None},
            start_time=moment - round((event.latency_ms or 0.0) * 1e6),
        )
        if event.status == "error":
            span.set_status(StatusCode.ERROR, event.error)
        span.end(moment)

    def _evaluated(self, event: MetricReported, moment: int) -> None:
        span = self._open.get((None, None))
        if span is not None and event.value is not None:
            about: dict[str, Any] = {
                "gen_ai.evaluation.name": event.metric,
                "gen_ai.evaluation.score.value": event.value,
                "gage_eval.task_id": event.task_id,
                "gage_eval.n": event.n,
            }
            span.add_event("gen_ai.evaluation.result", about, moment)
