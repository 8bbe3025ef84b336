"""events.jsonl: one line for everything worth knowing later, also while the run is under way."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gage_eval.canonical import canonical_json

PROGRESS_EVERY_S = 1.0


class EventLog:
    """Writes events as JSON lines: event_id, time, type, run_id, task_id, stage, payload.

    Args:
        append: takes one line.
        run_id: the run's name, part of every event.
    """

    def __init__(self, append: Callable[[bytes], None], run_id: str) -> None:
        self._append = append
        self._run_id = run_id
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str], float] = {}

    def started(self, task_id: str, stage: str) -> None:
        self._write("stage_started", task_id, stage, {})

    def progress(
        self, task_id: str, stage: str, done: int, total: int | None, figures: Mapping[str, int | float]
    ) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._told.get((task_id, stage), 0.0) < PROGRESS_EVERY_S:
                return
            self._told[task_id, stage] = now
        self._write("stage_progress", task_id, stage, {"done": done, "total": total, **figures})

    def finished(self, result: Any) -> None:
        payload = {
            "key": result.key,
            "outputs": result.outputs,
            "cached": result.cached,
            "complete": result.complete,
            "counts": result.counts,
            "seconds": round(result.seconds, 6),
        }
        self._write("stage_finished", result.task_id, result.stage, payload)

    def failed(self, task_id: str, stage: str, error: BaseException) -> None:
        self._write("stage_failed", task_id, stage, {"error": str(error), "type": type(error).__name__})

    def note(self, task_id: str | None, kind: str, payload: Mapping[str, Any]) -> None:
        self._write(kind, task_id, None, payload)

    def _write(self, kind: str, task_id: str | None, stage: str | None, payload: Mapping[str, Any]) -> None:
        event = {
            "event_id": uuid.uuid4().hex,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "type": kind,
            "run_id": self._run_id,
            "task_id": task_id,
            "stage": stage,
            "payload": dict(payload),
        }
        with self._lock:
            self._append(canonical_json(event))
