"""Runs as records: a list of them, newest first, and one with its stages and summary."""

from itertools import islice
from typing import Any

from gage_eval.errors import InputError
from gage_eval.report.console import score_text
from gage_eval.runs.options import Locations
from gage_eval.runs.stored import StoredRun, stored_runs

# What is said of a stage; the rest is in the record.
_SHOWN = {"state", "done", "total", "figures", "counts", "outputs", "error"}


def run_rows(locations: Locations, limit: int | None = None) -> list[dict[str, Any]]:
    """The runs of these locations, newest first: run, name, status, started, tasks and the headline score.

    A damaged folder has the status ``damaged`` and nothing else, so that it does not hide the other runs.
    """
    return [_row(stored) for stored in islice(stored_runs(locations), limit)]


def run_record(stored: StoredRun) -> dict[str, Any]:
    """One run with its record, the state of its stages, and its summary once it has finished.

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
        "status": stored.standing,
        "record": stored.record.model_dump(mode="json"),
        "stages": stages,
        "summary": stored.summary.model_dump(mode="json") if stored.status == "completed" else None,
    }


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
        "status": stored.standing,
        "started": record.created.isoformat(timespec="seconds"),
        "tasks": record.tasks,
        "score": _headline(stored) if record.status == "completed" else None,
    }


def _headline(stored: StoredRun) -> str | None:
    """The first metric of the first task; None also where the summary cannot be read, as the run's own page says."""
    try:
        metrics = stored.summary.metrics
    except InputError:
        return None
    return f"{metrics[0].name} {score_text(metrics[0])}" if metrics else None
