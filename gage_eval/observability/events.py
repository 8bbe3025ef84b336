"""The events of a run, its tasks and its stages: one frozen dataclass each. Those of samples: `sample_events`.

events.jsonl is written from them. It is a log for people and programs that follow a run; the run itself never reads it.
docs/events.md is generated from the docstrings.
"""

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gage_eval.base.stages import StageResult

# Fields that say where an event happened, or whether it is written. The other fields are its payload.
_PLACE = frozenset({"task_id", "stage", "sample_id", "sampled"})


@dataclass(frozen=True)
class Event:
    """Base of all events.

    Attributes:
        name: the event's type in events.jsonl.
        default_severity: a level of `logging`; sinks may leave out lower ones.
        lossy: may be left out, and counted, when events come faster than they are written.
    """

    name: ClassVar[str]
    default_severity: ClassVar[int] = logging.INFO
    lossy: ClassVar[bool] = False

    def __init_subclass__(cls, *, name: str = "", severity: int | None = None, lossy: bool = False) -> None:
        """Declare a type of events, as in ``class RunFailed(Event, name="run_failed", severity=logging.ERROR)``."""
        if name:
            cls.name = name
        cls.default_severity = cls.default_severity if severity is None else severity
        cls.lossy = cls.lossy or lossy

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        """Task id and stage, None where the event belongs to none."""
        return None, None

    @property
    def sample(self) -> str | None:
        """The id of the sample; None where the event belongs to none."""
        return None

    @property
    def severity(self) -> int:
        """How serious it is, as a level of `logging`."""
        return self.default_severity

    @property
    def is_written(self) -> bool:
        """False for a sample outside the sampling rate, which only statistics count."""
        return True

    def payload(self) -> dict[str, Any]:
        """The event's fields as JSON, without its place."""
        return {name: getattr(self, name) for name in payload_fields(type(self))}


_payload_fields: dict[type[Event], tuple[str, ...]] = {}


def payload_fields(event: type[Event]) -> tuple[str, ...]:
    """The names of an event's fields that are part of its payload."""
    fields = _payload_fields.get(event)
    if fields is None:
        names = (field.name for field in dataclasses.fields(event))
        fields = _payload_fields[event] = tuple(name for name in names if name not in _PLACE)
    return fields


@dataclass(frozen=True)
class RunStarted(Event, name="run_started"):
    """A run started or was resumed.

    Attributes:
        run_id: the run's name.
        config_name: what is run: the config's or the suite's name.
        tasks: ids of its tasks.
        resume_command: the command that resumes the run.
        url: page of the flow run, None for an inline run.
        queued_s: seconds since the time that its flow run was scheduled for; None for a run that no worker took.
    """

    run_id: str
    config_name: str
    tasks: tuple[str, ...]
    resume_command: str
    url: str | None = None
    queued_s: float | None = None


@dataclass(frozen=True)
class RunUsage(Event, name="usage"):
    """What the run took so far, at its end. A run that was resumed has this once for each of its processes.

    Attributes:
        run_id: the run's name.
        config_name: what is run: the config's or the suite's name.
        seconds: of this process.
        prompt_tokens: as the endpoints count them.
        completion_tokens: as the endpoints count them.
        cost: in the currency of the config's prices.
        gpu_seconds: seconds for which it used each engine that it started, times its GPUs; None without such.
    """

    run_id: str
    config_name: str
    seconds: float
    prompt_tokens: int
    completion_tokens: int
    cost: float
    gpu_seconds: float | None


@dataclass(frozen=True)
class EngineStarted(Event, name="engine_started"):
    """An engine of the run has loaded its model and answers; or it was running already, for another run.

    Attributes:
        backend: type of its backend.
        seconds: how long the run waited for it.
        gpus: how many GPUs of this machine it holds.
    """

    backend: str
    seconds: float
    gpus: int


@dataclass(frozen=True)
class EngineOutOfMemory(Event, name="engine_out_of_memory", severity=logging.WARNING):
    """An engine did not get the memory it asked for, and is started again with less.

    Attributes:
        engine: its name.
        share: of the GPU's memory, that it asked for.
        next_share: that it asks for now.
    """

    engine: str
    share: float
    next_share: float


@dataclass(frozen=True)
class RunFinished(Event, name="run_finished"):
    """All tasks finished and the results are published."""


@dataclass(frozen=True)
class RunFailed(Event, name="run_failed", severity=logging.ERROR):
    """The run stopped early.

    Attributes:
        status: ``failed`` or ``interrupted``.
        error: why, one sentence.
    """

    status: str
    error: str


@dataclass(frozen=True)
class RunWarning(Event, name="warning", severity=logging.WARNING):
    """Something that the user should know; the run continues.

    Attributes:
        message: one sentence.
        task_id: the task it is about, None for the whole run.
    """

    message: str
    task_id: str | None = None

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        return self.task_id, None


@dataclass(frozen=True)
class FetchStarted(Event, name="fetch_started"):
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

    origin: str
    repository: str
    commit: str
    licence: str
    non_commercial: bool
    files: int
    size: int


@dataclass(frozen=True)
class FetchProgress(Event, name="fetch_progress", severity=logging.DEBUG, lossy=True):
    """Bytes of missing data files have arrived.

    Attributes:
        done: bytes so far.
        total: bytes there are.
    """

    done: int
    total: int


@dataclass(frozen=True)
class FetchFinished(Event, name="fetch_finished"):
    """All data files are in the data cache.

    Attributes:
        files: how many were added.
        size: their size in bytes.
        seconds: how long it took.
        source: the user's folder that they were copied from; None when they were fetched.
    """

    files: int
    size: int
    seconds: float
    source: str | None = None


@dataclass(frozen=True)
class TaskEvent(Event):
    """Base of the events of one task."""

    task_id: str

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        return self.task_id, None


@dataclass(frozen=True)
class TaskStarted(TaskEvent, name="task_started"):
    """The first stage of a task is about to start."""


@dataclass(frozen=True)
class TaskFinished(TaskEvent, name="task_finished"):
    """All stages of a task finished.

    Attributes:
        seconds: since the task started.
    """

    seconds: float


@dataclass(frozen=True)
class TaskFailed(TaskEvent, name="task_failed", severity=logging.ERROR):
    """A task stopped early.

    Attributes:
        error: why.
        type: class of the error.
        interrupted: it was stopped, without an error of the task.
    """

    error: str
    type: str
    interrupted: bool


@dataclass(frozen=True)
class MetricReported(TaskEvent, name="metric"):
    """A number of a finished task, as in summary.json.

    Attributes:
        metric: its name as it is shown, with filter and value key where they matter.
        value: the number; null when no row counted.
        ci_low: lower bound of the 95 % interval.
        ci_high: upper bound of it.
        n: samples the number is made of.
    """

    metric: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int


@dataclass(frozen=True)
class ConcurrencyChanged(Event, name="concurrency_changed", lossy=True):
    """The number of requests that an endpoint may have in flight changed, because it is overloaded or no longer is.

    Attributes:
        endpoint: its URL, or the type of its backend.
        before: the limit until now.
        after: the limit from now on.
    """

    endpoint: str
    before: int
    after: int


@dataclass(frozen=True)
class LogRecorded(Event, name="log", lossy=True):
    """A message of Python's `logging`.

    Attributes:
        level: its level, such as ``WARNING``.
        logger: who said it.
        message: the text.
    """

    level: str
    logger: str
    message: str

    @property
    def severity(self) -> int:
        return logging.getLevelNamesMapping().get(self.level, logging.INFO)


@dataclass(frozen=True)
class GateDecided(Event, name="gate"):
    """`gage gate` measured the finished run against a baseline.

    Attributes:
        baseline: the baseline's name.
        entry: which state of it, from 1.
        verdict: on all tasks: ``passed``, ``improved``, ``regressed`` or ``inconclusive``.
        tasks: for each task its metric, both scores, the change, the verdict, and what was allowed to differ.
    """

    baseline: str
    entry: int
    verdict: str
    tasks: tuple[Mapping[str, Any], ...]

    @property
    def severity(self) -> int:
        return logging.WARNING if self.verdict == "regressed" else logging.INFO


@dataclass(frozen=True)
class EventsDropped(Event, name="events_dropped", severity=logging.WARNING):
    """Events of samples, parts, progress or logs came faster than they could be written, and were left out.

    Attributes:
        count: how many since the last event of this type.
    """

    count: int


@dataclass(frozen=True)
class StageEvent(Event):
    """Base of the events of one stage of one task."""

    task_id: str
    stage: str

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        return self.task_id, self.stage


@dataclass(frozen=True)
class StageStarted(StageEvent, name="stage_started"):
    """A stage started.

    Attributes:
        started: seconds since the epoch.
    """

    started: float


@dataclass(frozen=True)
class StageProgress(StageEvent, name="stage_progress", severity=logging.DEBUG, lossy=True):
    """The progress of a stage.

    Attributes:
        done: rows done.
        total: rows there are, None while that is unknown.
        figures: rows_per_s, in_flight, retried, reused, errors, as far as the stage knows them.
    """

    done: int
    total: int | None
    figures: Mapping[str, int | float]

    def payload(self) -> dict[str, Any]:
        return {"done": self.done, "total": self.total, **self.figures}


@dataclass(frozen=True)
class PartWritten(StageEvent, name="part_written", severity=logging.DEBUG, lossy=True):
    """A stage wrote a part of an output: some rows of the dataset, all at once.

    Attributes:
        output: the table's name.
        part: the part's index.
        rows: its rows.
    """

    output: str
    part: int
    rows: int


@dataclass(frozen=True)
class StageFinished(Event, name="stage_finished"):
    """A stage finished: it computed its outputs or found them in the store."""

    result: StageResult

    @property
    def stage_id(self) -> tuple[str | None, str | None]:
        return self.result.task_id, self.result.stage

    def payload(self) -> dict[str, Any]:
        values = dataclasses.asdict(self.result)
        return {name: value for name, value in values.items() if name not in ("task_id", "stage")}


@dataclass(frozen=True)
class StageFailed(StageEvent, name="stage_failed", severity=logging.ERROR):
    """A stage stopped early.

    Attributes:
        error: why.
        type: class of the error.
        interrupted: it was stopped, without an error of the stage.
    """

    error: str
    type: str
    interrupted: bool
