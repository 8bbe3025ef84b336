"""Sends reports to a Prefect API in the background, so that a run never waits for the server.

Reports are delivered in order. If the API is gone or hangs, a report is retried until the API takes it. After the end
of the run the reporter waits as long as the API takes reports, less long for one that is silent, and a few seconds for
one that refuses connections.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import PrefectHTTPStatusError

from flows.api import api_client, is_unanswered

Report: TypeAlias = Callable[[SyncPrefectClient], None]

# Timeout of a request, and the wait before its next try.
_REQUEST_S = 5.0
_RETRY_S = 1.0
# After this time without an answer, the user is informed.
_SILENT_S = 10.0
# After the end of the run: the longest wait for an API that is gone, for one that is silent or busy, and for all
# reports. A server stalls where its database is on a slow or busy disk.
_GONE_S = 8.0
_STALLED_S = 25.0
_LONGEST_END_S = 60.0
_WATCH_EVERY_S = 1.5
# Log lines: most in one request, and most that are kept while the API does not answer.
_LINES_AT_ONCE = 200
_MOST_LINES = 5_000

_log = logging.getLogger(__name__)


class Reporter:
    """Delivers reports in order, in a separate thread.

    Args:
        api_url: the API; the configured one by default.
        watch: called every other second in the same thread, to query the API.
        on_silence: called once if the API has not answered for a while.
    """

    def __init__(
        self,
        api_url: str | None = None,
        *,
        watch: Report | None = None,
        on_silence: Callable[[], None] = lambda: None,
    ) -> None:
        self._api_url = api_url
        self._watch = watch
        self._on_silence = on_silence
        self._reports: deque[Report] = deque()
        self._lines: deque[dict[str, Any]] = deque(maxlen=_MOST_LINES)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._watch_due = time.monotonic() + _WATCH_EVERY_S
        self._silent_since: float | None = None
        self._is_gone = False
        self._reported = False
        self._taken_at = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="gage-eval-prefect", daemon=True)
        self._thread.start()

    def send(self, report: Report) -> None:
        """Deliver a report, after all earlier ones."""
        with self._changed:
            self._reports.append(report)
            self._changed.notify()

    def log(self, line: dict[str, Any]) -> None:
        """Add a line to the flow run's log."""
        with self._changed:
            self._lines.append(line)
            if self._post_lines not in self._reports:
                self._reports.append(self._post_lines)
                self._changed.notify()

    def close(self) -> bool:
        """Wait for the remaining reports while the API takes them, then stop. Returns whether all were delivered."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        now = self._taken_at = time.monotonic()
        last = now + _LONGEST_END_S
        while self._thread.is_alive() and now < last:
            end = self._taken_at + (_GONE_S if self._is_gone else _STALLED_S)
            if now >= end:
                break
            self._thread.join(min(end, last, now + _RETRY_S) - now)
            now = time.monotonic()
        return not self._reports

    def _work(self) -> None:
        with api_client(self._api_url, timeout_s=_REQUEST_S, retries=0) as client:
            while (report := self._next()) is not None:
                taken = self._attempt(client, report)
                if report is self._watch:
                    self._watch_due = time.monotonic() + _WATCH_EVERY_S
                elif taken:
                    self._delivered(report)
                if not taken:
                    # At the end of the run, the wait is shorter.
                    time.sleep(_RETRY_S / 4)
                    self._closing.wait(_RETRY_S)

    def _next(self) -> Report | None:
        """Wait for the next report; None at the end."""
        with self._changed:
            while True:
                left = self._watch_due - time.monotonic()
                if self._watch is not None and left <= 0 and not self._closing.is_set():
                    return self._watch
                if self._reports:
                    return self._reports[0]
                if self._closing.is_set():
                    return None
                self._changed.wait(left if self._watch is not None else None)

    def _delivered(self, report: Report) -> None:
        with self._changed:
            # Lines that arrived in the meantime are sent next.
            if report != self._post_lines or not self._lines:
                self._reports.popleft()

    def _attempt(self, client: SyncPrefectClient, report: Report) -> bool:
        """Send a report. Returns whether the API took it or finally refused it."""
        began = time.monotonic()
        try:
            report(client)
        except Exception as error:  # noqa: BLE001 - a failed report must not stop the run
            _log.debug("the Prefect API did not take a report: %r", error)
            if is_unanswered(error):
                # A busy API answers with a status; one that is gone refuses the connection at once.
                answered = isinstance(error, PrefectHTTPStatusError)
                self._is_gone = not answered and time.monotonic() - began < _REQUEST_S
                self._unanswered()
                return False
        self._silent_since = None
        self._is_gone = False
        self._taken_at = time.monotonic()
        return True

    def _unanswered(self) -> None:
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        if now - self._silent_since >= _SILENT_S and not self._reported:
            self._reported = True
            self._on_silence()

    def _post_lines(self, client: SyncPrefectClient) -> None:
        while self._lines:
            lines = [self._lines[index] for index in range(min(len(self._lines), _LINES_AT_ONCE))]
            try:
                client.create_logs(lines)
            except Exception as error:
                if is_unanswered(error):
                    raise
                # Sent again, they would be refused again, and hold up all other reports.
                _log.debug("the Prefect API refused %d log lines: %r", len(lines), error)
            for _ in lines:
                self._lines.popleft()
