"""Sinks that need nothing else: files and the console."""

import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from gage_eval.base.errors import visible
from gage_eval.observability.events import Event
from gage_eval.observability.writer import RecordedEvent, Sink


class Lines(Protocol):
    """A file that grows line by line, such as those of `gage_eval.runs.appended`."""

    def append(self, lines: bytes) -> None:
        """Append whole lines."""

    def close(self) -> None:
        """Close the file."""


class FileSink:
    """Appends events to a file, one line each."""

    def __init__(self, file: Lines) -> None:
        self._file = file

    def write(self, events: Sequence[RecordedEvent]) -> None:
        self._file.append(b"".join(record.line + b"\n" for record in events if record.line))

    def close(self) -> None:
        self._file.close()


class ConsoleSink:
    """Prints events to standard error, one line each: ``18:02:11 WARNING retry gsm8k/infer sample 17 · attempt 1``."""

    def write(self, events: Sequence[RecordedEvent]) -> None:
        lines = [f"{_clock(record.time)} {console_line(record.event)}\n" for record in events if record.line]
        if lines:
            sys.stderr.write("".join(lines))
            sys.stderr.flush()

    def close(self) -> None:
        """There is nothing left to write."""


def console_line(event: Event) -> str:
    """An event as a line for people."""
    task_id, stage = event.stage_id
    where = "/".join(filter(None, (task_id, stage)))
    sample = f"sample {event.sample}" if event.sample is not None else ""
    values = " · ".join(f"{name} {value}" for name, value in event.payload().items() if value not in (None, "", {}, ()))
    head = " ".join(filter(None, (logging.getLevelName(event.severity), event.name, where, sample)))
    return visible(f"{head}{' · ' if values else ''}{values}")


class AtLeast:
    """Passes only events of at least a severity on to a sink.

    Args:
        sink: gets them.
        severity: a level of `logging`.
    """

    def __init__(self, sink: Sink, severity: int) -> None:
        self._sink = sink
        self._severity = severity

    def write(self, events: Sequence[RecordedEvent]) -> None:
        self._sink.write([record for record in events if record.event.severity >= self._severity])

    def close(self) -> None:
        self._sink.close()


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%H:%M:%S")
