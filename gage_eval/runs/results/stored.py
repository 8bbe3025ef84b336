"""Stored runs: finished, failed, or running in another process."""

import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from gage_eval.base.canonical import decode
from gage_eval.base.errors import GageError, InputError, NotFinished
from gage_eval.base.processes import alive
from gage_eval.base.stages import Stage
from gage_eval.base.version import __version__
from gage_eval.report.summary import Summary
from gage_eval.runs.folder import SUMMARY_FILE, RunFolder, is_there, list_runs, open_runs
from gage_eval.runs.options import Locations
from gage_eval.runs.record import RunRecord, RunStatus, StageRecord

if TYPE_CHECKING:
    from gage_eval.pipeline.forecast import Use

# A running run writes its run.json at least every 30 seconds.
SILENT_S = 120.0


class StoredRun:
    """A run by its folder."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @classmethod
    def open(cls, locations: Locations, run_id: str) -> "StoredRun":
        """Open a run in these locations.

        Raises:
            InputError: there is none of that id.
        """
        return cls(RunFolder.open(locations, run_id))

    @property
    def run_id(self) -> str:
        return self.folder.run_id

    @cached_property
    def record(self) -> RunRecord:
        """The content of run.json.

        Raises:
            InputError: it is damaged.
        """
        return self.folder.record()

    @property
    def status(self) -> RunStatus:
        """The status in run.json."""
        return self.record.status

    @property
    def state(self) -> str:
        """The status; for a run with the status running also ``killed`` (its process is gone) or ``silent``.

        A process can be looked up only on its own host. Elsewhere, a run without a sign of life is ``silent``.
        """
        if self.status != "running":
            return self.status
        process = self.record.process
        if process is not None and process.host == socket.gethostname():
            return "running" if alive(process.pid, process.born) else "killed"
        return "running" if self.silent_s() < SILENT_S else "silent"

    @property
    def unreported_at(self) -> str | None:
        """The Prefect API that was not told how the run ended, because the run's process was killed before."""
        process, flow_run = self.record.process, self.record.prefect
        if flow_run is None or flow_run.unreported_at is None or process is None:
            return None
        if process.host != socket.gethostname() or alive(process.pid, process.born):
            return None
        return flow_run.unreported_at

    @cached_property
    def summary(self) -> Summary:
        """The content of summary.json.

        Raises:
            InputError: the run has not finished, or another version of gage-eval wrote the file.
        """
        data = self.folder.read(SUMMARY_FILE)
        if data is None:
            raise NotFinished(f"run {self.run_id} has no summary (it is {self.state}); finish it: {self.folder.again}")
        try:
            return Summary.model_validate(decode(data))
        except ValueError as error:
            raise InputError(
                f"{self.folder.location(SUMMARY_FILE)} is not a summary that gage-eval {__version__} can read; "
                f"write it again: {self.folder.again}"
            ) from error

    @property
    def known_summary(self) -> Summary | None:
        """The content of summary.json; None where there is none, or none that can be read."""
        with suppress(InputError):
            return self.summary
        return None

    @property
    def stages(self) -> dict[tuple[str, Stage], StageRecord]:
        """All stages that were started, by (task id, stage)."""
        return self.record.by_stage

    @property
    def outputs(self) -> dict[tuple[str, str], dict[str, str]]:
        """Artifact ids by (task id, stage) and output, of every stage that finished."""
        return {stage_id: stage.outputs for stage_id, stage in self.stages.items() if stage.outputs}

    def stages_of(self, task_id: str) -> dict[Stage, StageRecord]:
        """The stages of a task that were started."""
        return {stage: record for (name, stage), record in self.stages.items() if name == task_id}

    def unfinished(self, task_id: str, stage: str) -> NotFinished:
        """The error for an unfinished stage, with what to do about it."""
        state = self.state
        remedy = "wait until it has" if state == "running" else f"resume it: {self.folder.again}"
        return NotFinished(
            f"{stage} of task '{task_id}' has not finished in run {self.run_id} (the run is {state}); {remedy}"
        )

    def silent_s(self) -> float:
        """Seconds since the run gave a sign of life."""
        last = self.record.updated or self.record.resumed or self.record.created
        return (datetime.now(UTC) - last).total_seconds()


def stored_runs(locations: Locations) -> Iterator[StoredRun]:
    """The runs of these locations, newest first; none if the folder does not exist."""
    if not is_there(locations.runs):
        return
    objects = open_runs(locations.runs, read_only=True)
    for run_id in list_runs(locations.runs):
        yield StoredRun(RunFolder(objects, locations, run_id))


def completed_runs(locations: Locations, name: str, most: int | None = None) -> Iterator[StoredRun]:
    """The completed runs of a config or suite, newest first. Damaged runs are left out.

    Args:
        locations: where they are.
        name: of the config or suite.
        most: look at most at so many runs, whatever they are of.
    """
    for run in islice(stored_runs(locations), most):
        with suppress(GageError):
            if run.record.name == name and run.status == "completed":
                yield run


def uses_of(locations: Locations) -> "dict[str, list[Use]]":
    """The runs of these locations that used an action, by its key. Damaged runs are ignored."""
    from gage_eval.pipeline.forecast import Use

    uses: defaultdict[str, list[Use]] = defaultdict(list)
    for run in stored_runs(locations):
        with suppress(InputError):
            for (task_id, _), stage in run.stages.items():
                if stage.key is not None:
                    uses[stage.key].append(Use(run.run_id, task_id))
    return dict(uses)
