"""Runs as JSON records: a list of runs, and one run with its stages and summary."""

from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from gage_eval.base.errors import InputError
from gage_eval.base.stages import STAGES, Stage
from gage_eval.report.console import headline
from gage_eval.report.summary import TaskMetric
from gage_eval.runs.options import Locations
from gage_eval.runs.record import StageRecord, StageState
from gage_eval.runs.results.formatting import duration, of_task
from gage_eval.runs.results.stored import StoredRun, stored_runs

if TYPE_CHECKING:
    from gage_eval.runs.results.reading import RunReader

# The shown fields of a stage.
_SHOWN = {"state", "done", "total", "figures", "counts", "outputs", "error"}


def run_rows(locations: Locations, limit: int | None = None) -> list[dict[str, Any]]:
    """The runs of these locations, newest first: run, name, status, started, tasks and the headline score.

    A damaged folder has the status ``damaged`` and nothing else, so that it does not hide the other runs.
    """
    return [_row(stored) for stored in islice(stored_runs(locations), limit)]


def run_record(stored: StoredRun) -> dict[str, Any]:
    """One run: its record, the state of its stages, and its summary if it has finished.

    Raises:
        InputError: its files cannot be read.
    """
    stages = [
        {"task_id": task_id, "stage": stage, **record.model_dump(mode="json", include=_SHOWN)}
        for (task_id, stage), record in stored.stages.items()
    ]
    return {
        "run_id": stored.run_id,
        "folder": stored.folder.url,
        "status": stored.state,
        "record": stored.record.model_dump(mode="json"),
        "stages": stages,
        "summary": stored.summary.model_dump(mode="json") if stored.status == "completed" else None,
    }


@dataclass(frozen=True)
class ShownStage:
    """The current state of a task's stage.

    Attributes:
        task_id, stage: which.
        state: the state in run.json; ``stopped`` if the run was killed before it could record that.
        record: the stage's record in run.json.
    """

    task_id: str
    stage: Stage
    state: StageState
    record: StageRecord


def shown_stages(stored: StoredRun) -> list[ShownStage]:
    """The stages that were started, by task in the config's order. Tasks that the config no longer has come last."""
    order: dict[tuple[str, str], int] = {
        stage_id: number for number, stage_id in enumerate(product(stored.record.tasks, STAGES))
    }

    def position(entry: ShownStage) -> tuple[int, str]:
        task, part = of_task(entry.task_id)
        return order.get((task, entry.stage), len(order)), part

    moving = stored.state == "running"
    shown = [
        ShownStage(task_id, stage, "stopped" if record.state == "running" and not moving else record.state, record)
        for (task_id, stage), record in stored.stages.items()
    ]
    return sorted(shown, key=position)


def scored_metrics(run: "RunReader", task_id: str) -> list[TaskMetric]:
    """The numbers of a task; also those of a scored task of a run that has not finished. Empty before scoring."""
    try:
        return [TaskMetric(task_id=task_id, **metric.model_dump()) for metric in run.task(task_id).summary.metrics]
    except InputError:
        return []


def run_remarks(stored: StoredRun) -> list[str]:
    """Notes on a run that did not complete normally: what happened and what to do."""
    again = f"resume it: {stored.folder.again}"
    state = stored.state
    if state == "killed":
        return [f"Its process was killed. What was computed is kept; {again}"]
    if state == "silent":
        return [f"No sign of life for {duration(stored.silent_s())}: it was probably killed; {again}"]
    if state == "running":
        return [f"It is running; its last sign of life was {duration(max(0.0, stored.silent_s()))} ago."]
    if state == "completed":
        scored = stored.record.rescored
        return [] if scored is None else [f"It holds other scores of the responses of run {scored.run_id}."]
    error = (stored.record.error or "").strip()
    if "gage resume" in error:
        return [error]
    return [f"{error}{' ' if error else ''}What was computed is kept; {again}"]


def _row(stored: StoredRun) -> dict[str, Any]:
    try:
        record = stored.record
    except InputError:
        return dict.fromkeys(("run", "name", "status", "started", "tasks", "score")) | {
            "run": stored.run_id,
            "status": "damaged",
        }
    return {
        "run": stored.run_id,
        "name": record.name,
        "status": stored.state,
        "started": record.created.isoformat(timespec="seconds"),
        "tasks": record.tasks,
        "score": _headline(stored) if record.status == "completed" else None,
    }


def _headline(stored: StoredRun) -> str | None:
    """The first score, and how many more there are; None without a summary, and if it cannot be read."""
    try:
        return headline(stored.summary, 1) if stored.summary.metrics else None
    except InputError:
        return None
