"""Progress of stages at a Prefect API: an artifact per stage that asks a model, and now and then a log line."""

import logging
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient

from flows.page import stage_label
from flows.reporter import Report, Reporter
from gage_eval.observability.events import StageProgress
from gage_eval.runs.figures import ProgressLines, progress_line
from gage_eval.runs.names import slug

# Seconds between two updates of an artifact.
_SHOW_EVERY_S = 2.0
_ASKING = frozenset({"support", "infer", "judge"})


class Progress:
    """The progress artifacts of a flow run.

    While the API does not answer, at most one update per stage waits for it.

    Args:
        flow_run_id: the flow run.
        reporter: delivers the updates.
        task_run: the task run of a stage, by (task id, stage).
        say: adds a line to the flow run's log.
    """

    def __init__(
        self,
        flow_run_id: UUID,
        reporter: Reporter,
        task_run: Callable[[tuple[str, str]], UUID | None],
        say: Callable[[str, int], None],
    ) -> None:
        self._flow_run_id = flow_run_id
        self._reporter = reporter
        self._task_run = task_run
        self._say = say
        self._latest: dict[tuple[str, str], StageProgress] = {}
        self._waiting: set[tuple[str, str]] = set()
        self._artifacts: dict[tuple[str, str], str] = {}
        self._shown_at: dict[tuple[str, str], float] = {}
        self._lines = ProgressLines()

    def tell(self, event: StageProgress) -> None:
        """Show the progress of a stage, if it is time."""
        stage_id = event.task_id, event.stage
        if event.stage not in _ASKING or event.total is None:
            return
        now = time.monotonic()
        self._latest[stage_id] = event
        if self._lines.is_due(stage_id):
            self._say(f"{stage_label(*stage_id)}: {progress_line(event)}", logging.INFO)
        if now - self._shown_at.get(stage_id, -_SHOW_EVERY_S) >= _SHOW_EVERY_S:
            self._shown_at[stage_id] = now
            self._send(stage_id)

    def ended(self, stage_id: tuple[str, str]) -> None:
        """Show the last progress of a stage that ended, if any was shown."""
        if stage_id in self._shown_at:
            self._send(stage_id)

    def _send(self, stage_id: tuple[str, str]) -> None:
        if stage_id not in self._waiting:
            self._waiting.add(stage_id)
            self._reporter.send(self._update(stage_id))

    def _update(self, stage_id: tuple[str, str]) -> Report:
        def report(client: SyncPrefectClient) -> None:
            event = self._latest[stage_id]
            percent = 100.0 * event.done / event.total if event.total else 100.0
            shown: dict[str, Any] = {"data": percent, "description": progress_line(event)}
            artifact = self._artifacts.get(stage_id)
            if artifact is not None:
                client.request("PATCH", f"/artifacts/{artifact}", json=shown)  # type: ignore[arg-type]
            else:
                task_run = self._task_run(stage_id)
                place = {"flow_run_id": str(self._flow_run_id), "task_run_id": str(task_run) if task_run else None}
                key = f"{slug(event.task_id)}-{event.stage}"
                answer = client.request("POST", "/artifacts/", json={"key": key, "type": "progress", **place, **shown})
                self._artifacts[stage_id] = answer.json()["id"]
            self._waiting.discard(stage_id)

        return report
