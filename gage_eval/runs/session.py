"""A run from its options to its end: what the inline runner and the flows share."""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from gage_eval import __version__
from gage_eval.client.budget import Budget
from gage_eval.engine.runtime import Runtime
from gage_eval.errors import GageError, InputError
from gage_eval.observability.events import EventLog
from gage_eval.observability.observer import Observer, Observers
from gage_eval.processes import born
from gage_eval.report.summary import Summary
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations, RunOptions
from gage_eval.runs.planned import planned
from gage_eval.settings import load_settings
from gage_eval.stages import Env, StageResult

# Tasks side by side: enough that the tail of one overlaps the start of the next, few enough to stay small in memory.
TASKS_AT_ONCE = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunOutcome:
    """What a run came to.

    Attributes:
        run_id: its name.
        folder: its folder.
        summary: what summary.json holds.
        results: every stage's result by (task id, stage).
    """

    run_id: str
    folder: RunFolder
    summary: Summary
    results: dict[tuple[str, str], StageResult]

    @property
    def all_cached(self) -> bool:
        return all(result.cached for result in self.results.values())


class RunSession:
    """Everything a run holds open: its folder, store, engine and observers, its plan, and results as they come.

    Use as a context manager.

    Args:
        options: what is asked.
        observers: told what happens, beside the run's own event log.
        secrets: value of a ``block:`` reference; only flows have one.
        process: extra fields for run.json (the Prefect flow run, …).

    Raises:
        InputError: the config or the options cannot be used, or the run id is taken.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        options: RunOptions,
        observers: Iterable[Observer] = (),
        *,
        secrets: Callable[[str], str] | None = None,
        process: dict[str, Any] | None = None,
    ) -> None:
        self.began = time.time()
        self.options = options
        asked = planned(options, secrets=secrets)
        self.loaded, self.plan, self.store = asked.loaded, asked.plan, asked.store
        self.folder = self._folder(asked.locations, process or {})
        self.results: dict[tuple[str, str], StageResult] = {}
        self.observer = Observers([EventLog(self.folder.append_event, self.folder.run_id), _Collect(self), *observers])
        settings = load_settings()
        limits = self.loaded.config.limits
        self.runtime = Runtime(
            options.concurrency or settings.concurrency,
            self.folder.engines,
            Budget(tokens=limits.tokens, cost=limits.cost, wall_s=limits.wall_s),
        )
        self.env = Env(
            store=self.store,
            runtime=self.runtime,
            observer=self.observer,
            run_id=self.folder.run_id,
            again=self.folder.again,
            refresh=self._refresh(),
            only_errors=options.only_errors,
            max_inflight=settings.max_inflight,
            media_threads=settings.embed_media_threads,
            scoring_processes=settings.autoeval_workers or 1,
        )
        self.tasks_at_once = 1 if settings.sequential else TASKS_AT_ONCE
        self.observer.note(
            None,
            "run_started",
            {
                "run_id": self.run_id,
                "name": self.plan.name,
                "tasks": [task.task_id for task in self.plan.tasks],
                "url": (process or {}).get("prefect", {}).get("url"),
                "again": self.folder.again,
            },
        )
        for warning in self.loaded.warnings:
            self.observer.note(None, "warning", {"message": warning})

    @property
    def run_id(self) -> str:
        return self.folder.run_id

    def _folder(self, locations: Locations, process: dict[str, Any]) -> RunFolder:
        options = self.options
        now = datetime.now(UTC).isoformat(timespec="seconds")
        # A resumed run records these anew: its config may have been edited since.
        current = {
            "gage_eval": __version__,
            "name": self.plan.name,
            "status": "running",
            "tasks": [task.task_id for task in self.plan.tasks],
            "config": {"source": self.loaded.source, "digest": self.loaded.digest, "text": self.loaded.text},
            "process": process_record(),
            **process,
        }
        if not options.resume:
            record = {"schema_version": 1, "created": now, "options": options.recorded(), **current}
            return RunFolder.create(locations, options.run_id, record)
        if options.run_id is None:
            raise InputError("resume needs the id of a run.")
        folder = RunFolder.open(locations, options.run_id)
        folder.update(resumed=now, **current)
        return folder

    def _refresh(self) -> frozenset[tuple[str, str]]:
        """What to compute again; a resumed run does not do twice what it refreshed already."""
        tasks = [*self.plan.tasks, *(task.pool for task in self.plan.tasks if task.pool)]
        wanted = {(task.task_id, stage) for stage in self.options.refresh for task in tasks}
        if self.options.resume and wanted:
            done = {
                (event["task_id"], event["stage"])
                for event in self.folder.events()
                if event["type"] == "stage_finished" and not event["payload"]["cached"]
            }
            wanted -= done
        return frozenset(wanted)

    def finish(self, status: str, error: BaseException | None = None) -> None:
        """Record how the run ended."""
        fields: dict[str, Any] = {
            "status": status,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "error": str(error) if error is not None else None,
            "stages": {
                f"{task}/{stage}": {"key": result.key, "outputs": result.outputs, "cached": result.cached}
                for (task, stage), result in sorted(self.results.items())
            },
        }
        self.folder.update(**fields)

    def __enter__(self) -> "RunSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self.finish("failed" if isinstance(error, Exception) else "interrupted", error)
        except GageError as second:
            _log.warning("the end of run %s could not be recorded: %s", self.run_id, second)
        finally:
            try:
                self.runtime.close()
            finally:
                self.folder.close()


def process_record() -> dict[str, Any]:
    """Names this process, so that a run that says it is running can be told from one that was killed."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "born": born(pid)}


class _Collect:
    """Keeps every stage's result for the summary."""

    def __init__(self, session: RunSession) -> None:
        self._session = session

    def started(self, task_id: str, stage: str) -> None: ...

    def progress(self, task_id: str, stage: str, done: int, total: int | None, figures: Any) -> None: ...

    def finished(self, result: StageResult) -> None:
        self._session.results[result.task_id, result.stage] = result

    def failed(self, task_id: str, stage: str, error: BaseException) -> None: ...

    def note(self, task_id: str | None, kind: str, payload: Any) -> None: ...
