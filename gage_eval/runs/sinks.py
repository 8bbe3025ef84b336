"""Where the events of a run go: events.jsonl in its folder, and what the config and the environment name."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gage_eval.base.errors import InputError
from gage_eval.base.files import local_path
from gage_eval.config.observability import ObservabilityConfig, SinkConfig
from gage_eval.config.secrets import is_reference
from gage_eval.config.settings import Settings
from gage_eval.observability.events import Event
from gage_eval.observability.http_recorder import HTTPRecorder, HTTPRecorderConfig
from gage_eval.observability.otel import OpenTelemetryConfig, OpenTelemetrySink
from gage_eval.observability.sinks import AtLeast, ConsoleSink, FileSink
from gage_eval.observability.writer import EventWriter, Sink
from gage_eval.runs.appended import LocalFile
from gage_eval.runs.folder import EVENTS_FILE, RunFolder


def add_event(folder: RunFolder, event: Event) -> None:
    """Append an event to the log of a run that has ended."""
    writer = EventWriter(folder.run_id, [FileSink(folder.appended(EVENTS_FILE))])
    writer.emit(event)
    writer.close()


@dataclass
class RunSinks:
    """Opens the sinks of a run.

    Attributes:
        folder: the run's folder.
        config: the section ``observability`` of its config.
        settings: of the environment.
        secrets: value of a ``block:`` reference; only flows have one.
    """

    folder: RunFolder
    config: ObservabilityConfig
    settings: Settings
    secrets: Callable[[str], str] | None = None
    _recorders: int = field(default=0, init=False)

    @property
    def counts_all_samples(self) -> bool:
        """Whether a sink makes statistics over all samples."""
        return self.settings.otel or any(sink.type == "otel" for sink in self._configured)

    def open(self) -> list[Sink]:
        """Open the sinks. Nothing is sent yet.

        Raises:
            InputError: a header refers to a secret that is not set, or OpenTelemetry is not installed.
        """
        sinks: list[Sink] = [FileSink(self.folder.appended(EVENTS_FILE))]
        level = logging.getLevelNamesMapping()[self.config.level]
        sinks += [AtLeast(self._sink(sink), level) for sink in self._configured if sink.output_path != EVENTS_FILE]
        settings = self.settings
        if settings.report_http_url is not None:
            sinks.append(
                self._recorder(
                    HTTPRecorderConfig(
                        settings.report_http_url,
                        settings.report_http_batch,
                        settings.report_http_timeout,
                        settings.report_http_fail_pct,
                    )
                )
            )
        if settings.otel:
            sinks.append(OpenTelemetrySink(OpenTelemetryConfig()))
        return sinks

    @property
    def _configured(self) -> list[SinkConfig]:
        return self.config.sinks if self.config.enabled else []

    def _sink(self, sink: SinkConfig) -> Sink:
        params = sink.params
        if sink.type == "console":
            return ConsoleSink()
        if sink.type == "file":
            path = local_path(sink.output_path or "", Path())
            return FileSink(LocalFile(path) if path.is_absolute() else self.folder.appended(path.as_posix()))
        headers = {name: self._value(name, value) for name, value in params.headers.items()}
        if sink.type == "otel":
            return OpenTelemetrySink(OpenTelemetryConfig(sink.url, headers, params.service_name))
        assert sink.url is not None, "the config's model checks that"
        return self._recorder(HTTPRecorderConfig(sink.url, params.batch, params.timeout, params.fail_pct, headers))

    def _recorder(self, config: HTTPRecorderConfig) -> HTTPRecorder:
        self._recorders += 1
        number = "" if self._recorders == 1 else f"-{self._recorders}"
        return HTTPRecorder(config, self.folder.appended(f"events_unsent{number}.jsonl"))

    def _value(self, header: str, value: str) -> str:
        """The value of a header; a reference to a secret is looked up."""
        if not is_reference(value):
            return value
        kind, _, name = value.partition(":")
        if kind == "env":
            secret = os.environ.get(name, "")
            if not secret:
                raise InputError(f"header '{header}' of a sink refers to {value}, but {name} is not set. Set it.")
            return secret
        if self.secrets is None:
            raise InputError(f"header '{header}' of a sink refers to {value}, but blocks need a Prefect API.")
        return self.secrets(name)
