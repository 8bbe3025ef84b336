"""Runs as they stand in the runs root: finished, failed, or under way in another process."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from gage_eval import __version__
from gage_eval.canonical import decode
from gage_eval.errors import InputError
from gage_eval.processes import alive
from gage_eval.report.summary import Summary
from gage_eval.runs.folder import SUMMARY_FILE, RunFolder, is_there, list_runs
from gage_eval.runs.options import Locations
from gage_eval.store import open_objects

# A run under way says something every second while it asks; a large part of another stage may take longer.
SILENT_S = 120.0


@dataclass
class StageState:
    """How far a stage of a task is, by its last event.

    Attributes:
        task_id, stage: which.
        state: ``running``, ``finished``, ``cached`` or ``failed``.
        done, total: rows, as far as they are known.
        figures: in_flight, retried, errors, rows_per_s, or the counts of a finished stage.
        outputs: artifact ids of a finished stage.
        error: why it failed.
    """

    task_id: str
    stage: str
    state: str
    done: int = 0
    total: int | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    error: str | None = None


class StoredRun:
    """A run by its folder."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @classmethod
    def open(cls, locations: Locations, run_id: str) -> "StoredRun":
        """A run of these locations.

        Raises:
            InputError: there is none of that id.
        """
        return cls(RunFolder.open(locations, run_id))

    @property
    def run_id(self) -> str:
        return self.folder.run_id

    @cached_property
    def record(self) -> dict[str, Any]:
        """What run.json holds.

        Raises:
            InputError: it is no run record.
        """
        return self.folder.record()

    @property
    def status(self) -> str:
        """``running``, ``completed``, ``failed`` or ``interrupted``."""
        return str(self.record.get("status"))

    @property
    def standing(self) -> str:
        """The status, where a run that says it is running may be ``killed`` (its process is gone) or ``silent``.

        A process can be looked up on its own host only; from elsewhere silence is all there is to go by.
        """
        if self.status != "running":
            return self.status
        process = self.record.get("process") or {}
        if process.get("host") == socket.gethostname():
            return "running" if alive(int(process["pid"]), int(process["born"])) else "killed"
        return "running" if self.folder.local is None or self.silent_s() < SILENT_S else "silent"

    @cached_property
    def summary(self) -> Summary:
        """What summary.json holds.

        Raises:
            InputError: the run has not come to its end, or another version of gage-eval wrote it.
        """
        data = self.folder.read(SUMMARY_FILE)
        if data is None:
            raise InputError(
                f"run {self.run_id} has no summary (it is {self.standing}); finish it by {self.folder.again}"
            )
        try:
            return Summary.model_validate(decode(data))
        except ValueError as error:
            raise InputError(
                f"{self.folder.place(SUMMARY_FILE)} is no summary that gage-eval {__version__} can read; write it "
                f"again by {self.folder.again}"
            ) from error

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The events so far."""
        return list(self.folder.events())

    @cached_property
    def stages(self) -> dict[tuple[str, str], StageState]:
        """Each stage that was begun, by (task id, stage), as the last events have it."""
        states: dict[tuple[str, str], StageState] = {}
        for event in self.events:
            task_id, stage = event.get("task_id"), event.get("stage")
            if isinstance(task_id, str) and isinstance(stage, str):
                state = states.setdefault((task_id, stage), StageState(task_id, stage, "running"))
                _tell(state, event["type"], dict(event.get("payload") or {}))
        return states

    @cached_property
    def outputs(self) -> dict[tuple[str, str], dict[str, str]]:
        """Artifact ids by (task id, stage) and output, of every stage that came to its end."""
        found = {place: state.outputs for place, state in self.stages.items() if state.outputs}
        for name, result in (self.record.get("stages") or {}).items():
            task_id, _, stage = name.rpartition("/")
            found[task_id, stage] = dict(result["outputs"])
        return found

    def silent_s(self, now: datetime | None = None) -> float:
        """Seconds since the run's last event."""
        last = next((event["time"] for event in reversed(self.events) if "time" in event), None)
        moment = datetime.fromisoformat(last or self.record.get("resumed") or self.record["created"])
        return ((now or datetime.now(UTC)) - moment).total_seconds()


def stored_runs(locations: Locations) -> Iterator[StoredRun]:
    """The runs of these locations, newest first; none when there is no such folder."""
    if not is_there(locations.runs):
        return
    objects = open_objects(locations.runs, read_only=True)
    for run_id in list_runs(locations.runs):
        yield StoredRun(RunFolder(objects, locations, run_id))


def _tell(state: StageState, kind: str, payload: dict[str, Any]) -> None:
    if kind == "stage_started":
        state.state, state.error = "running", None
    elif kind == "stage_progress":
        state.done, state.total = int(payload.pop("done", 0)), payload.pop("total", None)
        state.figures = payload
    elif kind == "stage_finished":
        state.state = "cached" if payload.get("cached") else "finished"
        state.outputs = dict(payload.get("outputs") or {})
        state.figures = dict(payload.get("counts") or {})
    elif kind == "stage_failed":
        state.state, state.error = "failed", str(payload.get("error"))
