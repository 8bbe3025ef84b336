"""Keeps run.json up to date during a run."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime

from gage_eval.base.errors import GageError
from gage_eval.base.periodic import Periodic
from gage_eval.base.stages import StageResult
from gage_eval.observability.events import Event, StageFailed, StageFinished, StageProgress, StageStarted
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.record import RunRecord, RunStatus, StageRecord, stage_name

# How often run.json is written: while stages change, and without changes, as a sign of life.
WRITE_EVERY_S = 1.0
SIGN_OF_LIFE_S = 30.0

_log = logging.getLogger(__name__)


class Recorder:
    """Writes what stages do to run.json: about once a second, and at once for events that must not be lost.

    Only changes are written, by compare-and-swap. So two processes that resume the same run lose no changes of each
    other. A kill loses about a second of this record, but no results: the stages' actions are in the store.

    Args:
        folder: the run's folder, with its run.json.
        refresh: (task id, stage) pairs that this run computes again.
    """

    def __init__(self, folder: RunFolder, refresh: Collection[tuple[str, str]]) -> None:
        self.results: dict[tuple[str, str], StageResult] = {}
        self._folder = folder
        self._refresh = refresh
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._stages: dict[str, StageRecord] = dict(folder.record().stages)
        self._changed: dict[str, StageRecord] = {}
        self._refreshed: set[str] = set()
        self._warned = False
        self._written = time.monotonic()
        self._regular = Periodic(self._write_if_due, WRITE_EVERY_S, name="gage-eval-run-record")
        self._regular.start()

    def emit(self, event: Event) -> None:
        task_id, stage = event.stage_id
        if task_id is None or stage is None:
            return
        name = stage_name(task_id, stage)
        at_once = False
        with self._lock:
            before = self._stages.get(name)
            after = _after(event, before)
            if after is None:
                return
            self._stages[name] = self._changed[name] = after
            if isinstance(event, StageFinished):
                self.results[task_id, stage] = _with_looks(event.result, self.results.get((task_id, stage)))
                if not event.result.cached and (task_id, stage) in self._refresh:
                    # Without this record, a resume would compute the stage a second time.
                    self._refreshed.add(name)
                    at_once = True
        if at_once:
            self._try_to_write()

    def record(self) -> RunRecord:
        """The run's record with all changes, also those that are not written yet."""
        with self._writing, self._lock:
            changed = dict(self._changed)
            return self._folder.record().with_stages(changed)

    def finish(self, status: RunStatus, error: str | None) -> None:
        """Record how the run ended, and stop writing.

        Raises:
            GageError: run.json cannot be written, or is damaged.
        """
        self.close()
        now = datetime.now(UTC)

        def ended(record: RunRecord) -> RunRecord:
            return record.with_stopped_stages().model_copy(update={"status": status, "finished": now, "error": error})

        self._write(ended)

    def close(self) -> None:
        """Stop the regular writing."""
        self._regular.stop()

    def _write_if_due(self) -> None:
        if self._changed or time.monotonic() - self._written >= SIGN_OF_LIFE_S:
            self._written = time.monotonic()
            self._try_to_write()

    def _try_to_write(self) -> None:
        """Write the changes. If that fails, the run continues, and one warning is logged."""
        try:
            self._write(lambda record: record)
        except GageError as error:
            if not self._warned:
                _log.warning("run.json is not up to date: %s", error)
            self._warned = True

    def _write(self, change: Callable[[RunRecord], RunRecord]) -> None:
        with self._writing:
            with self._lock:
                changed, self._changed = self._changed, {}
                refreshed = set(self._refreshed)

            def merged(record: RunRecord) -> RunRecord:
                both = [*record.refreshed, *sorted(refreshed.difference(record.refreshed))]
                return change(record.with_stages(changed).model_copy(update={"refreshed": both}))

            try:
                self._folder.update(merged)
            except BaseException:
                with self._lock:
                    self._changed = {**changed, **self._changed}
                raise


def _with_looks(result: StageResult, before: StageResult | None) -> StageResult:
    """A stage's result with what it took on the fewer rows of the look before: their answers were sent in this run."""
    if before is None:
        return result
    sent, counts = before.counts.get("sent", 0), dict(result.counts)
    if sent and "sent" in counts:
        counts.update(sent=counts["sent"] + sent, reused=counts["reused"] - sent)
    return replace(
        result, cached=result.cached and before.cached, seconds=result.seconds + before.seconds, counts=counts
    )


def _after(event: Event, before: StageRecord | None) -> StageRecord | None:
    """A stage's record after an event; None if the event changes nothing.

    The stage's earlier result stays in its record until it finishes again, so that garbage collection keeps it.
    """
    if isinstance(event, StageFinished):
        return StageRecord.of(event.result)
    kept = {} if before is None else {"key": before.key, "outputs": before.outputs, "complete": before.complete}
    if isinstance(event, StageStarted):
        return StageRecord(state="running", started=datetime.fromtimestamp(event.started, UTC), **kept)
    if before is None:
        before = StageRecord(state="running")
    if isinstance(event, StageProgress):
        return before.model_copy(update={"done": event.done, "total": event.total, "figures": dict(event.figures)})
    if isinstance(event, StageFailed):
        state = "stopped" if event.interrupted else "failed"
        return before.model_copy(update={"state": state, "error": None if event.interrupted else event.error})
    return None
