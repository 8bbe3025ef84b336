"""The events of a run: one frozen dataclass each.

events.jsonl is written from them. It is a log for people and programs that follow a run; the run itself never reads it.
"""

import dataclasses
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from gage_eval.canonical import canonical_json
from gage_eval.observability.results import StageResult

PROGRESS_EVERY_S = 1.0


@dataclass(frozen=True)
class Event:
    """Base of all events.

    Attributes:
        name: the event's type in events.jsonl.
    """

    name: ClassVar[str]

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        """Task id and stage, None where the event belongs to none."""
        return None, None

    def payload(self) -> dict[str, Any]:
        """The event's fields as JSON, without its place."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if name not in ("task_id", "stage")}


@dataclass(frozen=True)
class RunStarted(Event):
    """A run started or was resumed.

    Attributes:
        run_id: the run's name.
        config_name: what is run: the config's or the suite's name.
        tasks: ids of its tasks.
        resume_command: the command that resumes the run.
        url: page of the flow run, None for an inline run.
    """

    name: ClassVar[str] = "run_started"
    run_id: str
    config_name: str
    tasks: tuple[str, ...]
    resume_command: str
    url: str | None = None


@dataclass(frozen=True)
class RunFinished(Event):
    """All tasks finished and the results are published."""

    name: ClassVar[str] = "run_finished"


@dataclass(frozen=True)
class RunFailed(Event):
    """The run stopped early.

    Attributes:
        status: ``failed`` or ``interrupted``.
        error: why, one sentence.
    """

    name: ClassVar[str] = "run_failed"
    status: str
    error: str


@dataclass(frozen=True)
class RunWarning(Event):
    """Something that the user should know; the run continues.

    Attributes:
        message: one sentence.
        task_id: the task it is about, None for the whole run.
    """

    name: ClassVar[str] = "warning"
    message: str
    task_id: str | None = None

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        return self.task_id, None


@dataclass(frozen=True)
class FetchStarted(Event):
    """Files of a pinned origin are fetched into the data cache.

    Attributes:
        origin: its name.
        repository: where it is.
        commit: which state of it.
        licence: of the data.
        non_commercial: whether the licence forbids commercial use.
        files: how many files are fetched.
        size: their size in bytes.
    """

    name: ClassVar[str] = "fetch_started"
    origin: str
    repository: str
    commit: str
    licence: str
    non_commercial: bool
    files: int
    size: int


@dataclass(frozen=True)
class FetchProgress(Event):
    """Bytes of missing data files have arrived.

    Attributes:
        done: bytes so far.
        total: bytes there are.
    """

    name: ClassVar[str] = "fetch_progress"
    done: int
    total: int


@dataclass(frozen=True)
class FetchFinished(Event):
    """All data files are in the data cache.

    Attributes:
        files: how many were added.
        size: their size in bytes.
        seconds: how long it took.
        source: the user's folder that they were copied from; None when they were fetched.
    """

    name: ClassVar[str] = "fetch_finished"
    files: int
    size: int
    seconds: float
    source: str | None = None


@dataclass(frozen=True)
class StageEvent(Event):
    """Base of the events of one stage of one task."""

    task_id: str
    stage: str

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        return self.task_id, self.stage


@dataclass(frozen=True)
class StageStarted(StageEvent):
    """A stage started.

    Attributes:
        started: seconds since the epoch.
    """

    name: ClassVar[str] = "stage_started"
    started: float


@dataclass(frozen=True)
class StageProgress(StageEvent):
    """The progress of a stage.

    Attributes:
        done: rows done.
        total: rows there are, None while that is unknown.
        figures: rows_per_s, in_flight, retried, reused, errors, as far as the stage knows them.
    """

    name: ClassVar[str] = "stage_progress"
    done: int
    total: int | None
    figures: Mapping[str, int | float]

    def payload(self) -> dict[str, Any]:
        return {"done": self.done, "total": self.total, **self.figures}


@dataclass(frozen=True)
class StageFinished(Event):
    """A stage finished: it computed its outputs or found them in the store."""

    name: ClassVar[str] = "stage_finished"
    result: StageResult

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        return self.result.task_id, self.result.stage

    def payload(self) -> dict[str, Any]:
        values = dataclasses.asdict(self.result)
        return {name: value for name, value in values.items() if name not in ("task_id", "stage")}


@dataclass(frozen=True)
class StageFailed(StageEvent):
    """A stage stopped early.

    Attributes:
        error: why.
        type: class of the error.
        interrupted: it was stopped, without an error of the stage.
    """

    name: ClassVar[str] = "stage_failed"
    error: str
    type: str
    interrupted: bool


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
        self._reported_at: dict[tuple[str | None, str | None], float] = {}

    def tell(self, event: Event) -> None:
        task_id, stage = event.stage_id
        if isinstance(event, StageProgress | FetchProgress) and not self._is_due((task_id, stage)):
            return
        line = canonical_json(
            {
                "event_id": uuid.uuid4().hex,
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "type": event.name,
                "run_id": self._run_id,
                "task_id": task_id,
                "stage": stage,
                "payload": event.payload(),
            }
        )
        with self._lock:
            self._append(line)

    def _is_due(self, stage_id: tuple[str | None, str | None]) -> bool:
        """Whether the last progress of a stage, or of the fetch, was written long enough ago."""
        now = time.monotonic()
        with self._lock:
            if now - self._reported_at.get(stage_id, 0.0) < PROGRESS_EVERY_S:
                return False
            self._reported_at[stage_id] = now
            return True
