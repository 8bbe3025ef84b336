"""A sink that sends events to an HTTP endpoint in batches, and keeps in a local file what it cannot deliver."""

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gage_eval.models.client.post import PostFailed, post_json
from gage_eval.observability.sinks import Lines
from gage_eval.observability.writer import RecordedEvent

# An incomplete batch is sent after this time.
SEND_EVERY_S = 1.0
# A batch that the server refuses is sent again after these pauses. One that takes too long is not.
PAUSES_S = (0.25, 1.0)
# The share of failed batches is one of at least this many: a single failure at the start says little.
LEAST_BATCHES = 20
# Batches that wait to be sent; further ones go to the file.
MOST_BATCHES = 1_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HTTPRecorderConfig:
    """Where and how events are sent.

    Attributes:
        url: gets a POST of ``{"events": [...]}`` for each batch; any status of 2xx means delivered.
        batch: most events in a batch.
        timeout_s: longest time for one request.
        fail_pct: percentage of failed batches above which nothing more is sent.
        headers: sent with each request.
    """

    url: str = field(repr=False)
    batch: int = 50
    timeout_s: float = 10.0
    fail_pct: float = 5.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class HTTPRecorder:
    """Sends events in a thread. It never blocks or fails the run: what is not delivered is in the file.

    Args:
        config: where and how events are sent.
        unsent: gets the lines of events that are not delivered.
    """

    def __init__(self, config: HTTPRecorderConfig, unsent: Lines) -> None:
        self._config = config
        self._unsent = unsent
        self._lines: list[bytes] = []
        self._oldest = 0.0
        # None ends the thread.
        self._batches: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        # Guards the file, and which batch is still to be settled.
        self._lock = threading.Lock()
        self._sending: list[bytes] | None = None
        self._tried = 0
        self._failed = 0
        self._stopped = False
        self._thread: threading.Thread | None = None

    def write(self, events: Sequence[RecordedEvent]) -> None:
        now = time.monotonic()
        for record in events:
            if record.line:
                if not self._lines:
                    self._oldest = now
                self._lines.append(record.line)
                if len(self._lines) >= self._config.batch:
                    self._pass_on()
        if self._lines and now - self._oldest >= SEND_EVERY_S:
            self._pass_on()

    def close(self) -> None:
        """Send the remaining events, for at most the time of one request. The rest goes to the file."""
        if self._lines:
            self._pass_on()
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join(self._config.timeout_s)
        with self._lock:
            self._stopped = True
            if self._sending is not None:
                self._keep(self._sending)
                self._sending = None
            while (batch := _next(self._batches)) is not None:
                self._keep(batch)
            self._unsent.close()

    def _pass_on(self) -> None:
        batch, self._lines = self._lines, []
        if self._stopped or self._batches.qsize() >= MOST_BATCHES:
            with self._lock:
                self._keep(batch)
            return
        self._batches.put(batch)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="gage-eval-http-recorder", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            with self._lock:
                if self._stopped:
                    self._keep(batch)
                    continue
                self._sending = batch
            why = self._send(batch)
            with self._lock:
                if not self._take_back():
                    return  # `close` did not wait any longer
                self._settle(batch, why)

    def _send(self, batch: list[bytes]) -> str | None:
        """Send a batch; returns why it is not delivered, None when it is."""
        config, body = self._config, b'{"events":[' + b",".join(batch) + b"]}"
        for pause in (*PAUSES_S, None):
            try:
                post_json(config.url, body, config.headers, config.timeout_s)
                return None
            except PostFailed as error:
                if pause is None or error.timed_out:
                    return str(error)
            time.sleep(pause)
        return None

    def _take_back(self) -> bool:
        """Whether the batch that was sent is still to be settled here."""
        mine, self._sending = self._sending is not None, None
        return mine

    def _settle(self, batch: list[bytes], why: str | None) -> None:
        self._tried += 1
        if why is None:
            return
        self._failed += 1
        self._keep(batch)
        if self._failed == 1:
            _log.warning("the HTTP recorder did not take events (%s); they are in the run's folder.", why)
        if self._failed > self._config.fail_pct / 100 * max(self._tried, LEAST_BATCHES):
            self._stopped = True
            _log.warning(
                "the HTTP recorder gets no more events, because %s of %s batches failed; they are in the run's folder.",
                *(self._failed, self._tried),
            )

    def _keep(self, batch: list[bytes]) -> None:
        self._unsent.append(b"".join(line + b"\n" for line in batch))


def _next(batches: "queue.SimpleQueue[list[bytes] | None]") -> list[bytes] | None:
    """The next waiting batch; None when there is none."""
    while True:
        try:
            batch = batches.get_nowait()
        except queue.Empty:
            return None
        if batch is not None:
            return batch
