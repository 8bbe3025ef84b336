"""Hands events to sinks in a separate thread, so that no stage waits for a disk or a network."""

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, Protocol

import orjson

from gage_eval.base.errors import visible
from gage_eval.observability.events import Event, EventsDropped, FetchProgress, StageProgress

PROGRESS_EVERY_S = 1.0
# How often waiting events are written. Events of runs, tasks and stages are written at once.
WRITE_EVERY_S = 0.2
# Events that wait to be written. Beyond the first number, ordinary events of samples are dropped; beyond the second,
# errors too.
MOST_WAITING = 20_000
MOST_ERRORS_WAITING = 100_000

_log = logging.getLogger(__name__)


class RecordedEvent(NamedTuple):
    """An event with the time at which it happened.

    Attributes:
        time: seconds since the epoch.
        event: the event.
        line: its line in events.jsonl, without the line's end; empty for an event that is not written.
    """

    time: float
    event: Event
    line: bytes


class Sink(Protocol):
    """A destination of events. Called from one thread; must not wait long."""

    def write(self, events: Sequence[RecordedEvent]) -> None:
        """Take some events, in the order in which they happened. Called about five times a second, also without any."""

    def close(self) -> None:
        """Write what is left."""


class EventWriter:
    """The observer that writes events: event_id, time, type, run_id, task_id, stage, sample_id, payload.

    Args:
        run_id: the run's name, part of every event.
        sinks: where events go.
    """

    def __init__(self, run_id: str, sinks: Sequence[Sink]) -> None:
        self._run_id = run_id
        self._sinks = list(sinks)
        self._waiting: deque[tuple[float, Event]] = deque()
        self._dropped = 0
        self._reported_at: dict[tuple[str | None, str | None], float] = {}
        # A random start makes ids unique, and counting is faster than drawing each one.
        self._ids = os.urandom(8).hex()
        self._count = 0
        self._second = (-1, "")
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="gage-eval-events", daemon=True)
        self._thread.start()

    def emit(self, event: Event) -> None:
        if self._closed or (isinstance(event, StageProgress | FetchProgress) and not self._is_due(event.stage_id)):
            return
        if not event.lossy:
            self._waiting.append((time.time(), event))
            self._wake.set()
        elif len(self._waiting) < (MOST_WAITING if event.severity < logging.ERROR else MOST_ERRORS_WAITING):
            self._waiting.append((time.time(), event))
        else:
            self._dropped += 1

    def close(self) -> None:
        """Write all events so far, and stop. Later events are ignored."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._closed:
            self._wake.wait(WRITE_EVERY_S)
            self._wake.clear()
            self._write()
        self._write()
        for sink in list(self._sinks):
            self._try(sink, sink.close)

    def _write(self) -> None:
        events = [self._recorded(*self._waiting.popleft()) for _ in range(len(self._waiting))]
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            events.append(self._recorded(time.time(), EventsDropped(dropped)))
        for sink in list(self._sinks):
            self._try(sink, partial(sink.write, events))

    def _try(self, sink: Sink, action: Callable[[], None]) -> None:
        """Call a sink. A sink that fails gets no more events, and the run continues."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever it is, events matter less than the run
            self._sinks.remove(sink)
            _log.warning("events no longer go to %s: %s", type(sink).__name__, visible(str(error)))

    def _recorded(self, moment: float, event: Event) -> RecordedEvent:
        if not event.is_written:
            return RecordedEvent(moment, event, b"")
        task_id, stage = event.stage_id
        self._count += 1
        record = {
            "event_id": f"{self._ids}{self._count:010x}",
            "time": self._clock(moment),
            "type": event.name,
            "run_id": self._run_id,
            "task_id": task_id,
            "stage": stage,
            "sample_id": event.sample,
            "payload": event.payload(),
        }
        try:
            return RecordedEvent(moment, event, orjson.dumps(record))
        except orjson.JSONEncodeError:
            # Lone surrogates, or numbers beyond 64 bits.
            return RecordedEvent(moment, event, json.dumps(record, default=str).encode())

    def _clock(self, moment: float) -> str:
        """A time in ISO 8601 with milliseconds. Many events share a second, whose text is made once."""
        second = int(moment)
        if second != self._second[0]:
            self._second = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._second[1]}.{int((moment - second) * 1000):03d}+00:00"

    def _is_due(self, stage_id: tuple[str | None, str | None]) -> bool:
        """Whether the last progress of a stage, or of the fetch, was written long enough ago."""
        now = time.monotonic()
        if now - self._reported_at.get(stage_id, 0.0) < PROGRESS_EVERY_S:
            return False
        self._reported_at[stage_id] = now
        return True
