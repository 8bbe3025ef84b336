"""The page of a flow run: what Prefect does not show of a run by itself, and its Cancel and Suspend buttons.

Prefect's engine reports stages, states and log lines. This adds the scores, the report, the progress of stages that ask
a model, and the models as tags. Prefect looks for *Cancel* and *Suspend* between tasks only, and for *Cancel* only on a
worker. All this talks to the API in one thread: no stage waits for it, and what the API does not take is given up.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, cast
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas import State
from prefect.context import SyncClientContext
from prefect.events import emit_event
from prefect.exceptions import ObjectNotFound, Pause
from prefect.settings import PREFECT_API_URL

from flows.api import api_client
from flows.ended_runs import end_task_runs, open_task_runs
from flows.log_lines import log_lines
from flows.lost_runs import take_back
from flows.page import report_markdown, score_line, stage_label, stage_line, tags_of
from flows.states import aborted
from gage_eval.base.stages import ASKING
from gage_eval.local import server
from gage_eval.observability.events import (
    Event,
    FetchStarted,
    RunStarted,
    RunWarning,
    StageFailed,
    StageFinished,
    StageProgress,
    StageStarted,
)
from gage_eval.observability.observer import Observer
from gage_eval.report.console import artifact_rows, counted, readable
from gage_eval.runs import RunOutcome, RunSession
from gage_eval.runs.fetching import fetch_line
from gage_eval.runs.names import slug
from gage_eval.runs.record import FlowRunRecord
from gage_eval.runs.results.formatting import ProgressLines, progress_line

StageId: TypeAlias = tuple[str, str]

# Seconds between two looks at the flow run.
_LOOK_EVERY_S = 1.5
# After this time without an answer the user is informed.
_SILENT_S = 10.0
# At the end of a run, what is not sent after this time is given up; if the server does not answer, sooner.
LAST_S = 8.0
LAST_UNANSWERED_S = 1.0

_log = logging.getLogger("gage_eval")
# Lines for the developer, which are on no page.
_quiet_log = logging.getLogger("flows.flow_run")


class FlowRunPage:
    """The page of the current flow run, as an observer of its run.

    Args:
        flow_run: the flow run.
        observers: the run's other observers. Warnings about the API are for them.

    Attributes:
        observers: all observers of the run, this one first.
        is_silent: whether the user was told that the API does not answer.
    """

    def __init__(self, flow_run: FlowRunRecord, observers: Iterable[Observer] = ()) -> None:
        self._id = UUID(flow_run.flow_run_id)
        self._others = tuple(observers)
        self.observers: tuple[Observer, ...] = (self, *self._others)
        self.is_silent = False
        self._is_over = False
        self._session: RunSession | None = None
        self._viewer: str | None = None
        self._stopped: State[Any] | None = None
        self._answered = time.monotonic()
        self._has_failed = False
        self._thread: threading.Thread | None = None
        self._jobs: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        # Of each stage that is running: the context of its task run.
        self._contexts: dict[StageId, Context] = {}
        self._latest: dict[StageId, StageProgress] = {}
        self._shown: dict[StageId, tuple[UUID, StageProgress]] = {}
        self._lines = ProgressLines()

    def emit(self, event: Event) -> None:
        match event:
            case RunStarted():
                _log.info("%s · %s · run %s", event.config_name, counted(len(event.tasks), "task"), event.run_id)
            case StageStarted(task_id, stage):
                self._contexts[task_id, stage] = copy_context()
            case StageProgress(task_id, stage) if stage in ASKING and event.total:
                self._latest[task_id, stage] = event
                if self._lines.is_due((task_id, stage)):
                    _log.info("%s: %s", stage_label(task_id, stage), progress_line(event))
            case StageFinished(result):
                _log.info(stage_line(result))
            case StageFailed(task_id, stage, error, _, interrupted):
                level = logging.INFO if interrupted else logging.ERROR
                _log.log(level, "%s: %s", stage_label(task_id, stage), "stopped" if interrupted else readable(error))
            case FetchStarted():
                _log.info(fetch_line(event))
            case RunWarning(message):
                _log.warning(readable(message))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Have the log lines of gage_eval on the page. Turns what stopped the run into *Suspended* if that was it.

        Raises:
            Pause: the flow run was suspended.
        """
        try:
            with log_lines(str(self._id)):
                yield
        except KeyboardInterrupt:
            if self._stopped is not None and self._stopped.is_paused():
                raise Pause(state=self._stopped) from None
            raise

    @contextmanager
    def watched(self, session: RunSession) -> Iterator[None]:
        """While the run is carried out: show its progress, and end it if its flow run is cancelled or suspended.

        What is not sent by then follows; `finish` waits for it.
        """
        self._session = session
        if session.options.resume:
            self._end_killed_attempt()
        self._viewer = server.run_page(PREFECT_API_URL.value(), session.folder.locations, session.run_id)
        self._jobs.put(lambda: self._add_tags(tags_of(session.plan)))
        if self._viewer is not None:
            text = f"[Samples and answers of {session.run_id}]({self._viewer})"
            key = f"{slug(session.plan.name)}-viewer"
            self._jobs.put(lambda: create_markdown_artifact(text, key, f"Viewer of {session.run_id}"))
            _log.info("Samples and answers: %s", self._viewer)
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._work,), name="gage-eval-page", daemon=True
        )
        self._thread.start()
        try:
            yield
        finally:
            self._jobs.put(None)

    def finish(self, patience_s: float) -> None:
        """Wait until the server has taken everything, at most for this time in seconds, and give up the rest."""
        if self._thread is not None:
            self._thread.join(patience_s)
        self._is_over = True

    @property
    def patience_s(self) -> float:
        """How long to wait for the server at the end of the run, in seconds."""
        silent = self._has_failed or time.monotonic() - self._answered >= LAST_S
        return LAST_UNANSWERED_S if silent else LAST_S

    def publish(self, outcome: RunOutcome) -> None:
        """Show the scores and the report, and emit the event of a completed run."""
        key, run_id = slug(outcome.summary.name), outcome.run_id
        rows, report = artifact_rows(outcome.summary), report_markdown(outcome, self._viewer)
        self._jobs.put(lambda: create_table_artifact(rows, f"{key}-scores", f"Scores of {run_id}"))
        self._jobs.put(lambda: create_markdown_artifact(report, f"{key}-report", f"Report of {run_id}"))
        _log.info(score_line(outcome.summary))
        emit_event(
            "gage_eval.run.completed",
            {"prefect.resource.id": f"gage_eval.run.{run_id}", "prefect.resource.name": run_id},
            payload={"run_id": run_id, "name": outcome.summary.name, "folder": outcome.folder.url},
        )

    def _work(self) -> None:
        # Prefect's own functions retry as often as this client.
        with api_client() as client, _own_client():
            while True:
                try:
                    job = self._jobs.get(timeout=_LOOK_EVERY_S)
                except Empty:
                    self._try(lambda: self._look(client))
                    self._try(self._show_progress)
                    continue
                if job is None:
                    break
                self._try(job)
            self._try(self._show_progress)

    def _try(self, job: Callable[[], Any]) -> None:
        try:
            job()
        except Exception as error:  # noqa: BLE001 - a page that cannot be shown must not stop the run
            _quiet_log.debug("the Prefect API did not take this: %r", error)
            self._has_failed = True
            if time.monotonic() - self._answered >= _SILENT_S and not (self.is_silent or self._is_over):
                self.is_silent = True
                self._warn(
                    "the Prefect API does not answer. The run continues without it; its page in the UI may be out of "
                    "date."
                )
        else:
            self._answered = time.monotonic()
            self._has_failed = False

    def _warn(self, text: str) -> None:
        for observer in self._others:
            observer.emit(RunWarning(text))

    def _add_tags(self, tags: list[str]) -> None:
        with api_client() as client:
            there = client.read_flow_run(self._id).tags
            client.update_flow_run(self._id, tags=sorted({*there, *tags}))

    def _look(self, client: SyncPrefectClient) -> None:
        """End the run if its flow run was cancelled or suspended; take back that it is lost."""
        try:
            run = client.read_flow_run(self._id)
        except ObjectNotFound:
            return
        state = run.state
        if state is None or self._stopped is not None or self._session is None:
            return
        if state.is_cancelling() or state.is_cancelled() or state.is_paused():
            self._stopped = state
            how = "suspended" if state.is_paused() else "cancelled"
            self._session.observer.emit(RunWarning(f"the flow run was {how} at the Prefect API; the run stops."))
            self._session.cancel()
        elif take_back(client, run):
            _log.warning("the Prefect server had marked the run as lost; it is shown as running again.")

    def _show_progress(self) -> None:
        for stage_id, event in list(self._latest.items()):
            shown = self._shown.get(stage_id)
            if shown is not None and shown[1] is event:
                continue
            percent, text = 100.0 * event.done / (event.total or 1), progress_line(event)
            if shown is not None:
                artifact = shown[0]
                update_progress_artifact(artifact, percent, text)
            else:
                # In the context of the stage's task run, Prefect shows the artifact there too.
                context, key = self._contexts[stage_id].copy(), f"{slug(stage_id[0])}-{stage_id[1]}"
                context.run(_use_client, SyncClientContext.get())
                artifact = cast(UUID, context.run(create_progress_artifact, percent, key, text))
            self._shown[stage_id] = artifact, event

    def _end_killed_attempt(self) -> None:
        """End the task runs that a killed attempt left open: Prefect makes new ones for a retry."""
        try:
            with api_client(retries=0) as client:
                left = open_task_runs(client, self._id)
        except Exception as error:  # noqa: BLE001 - the run does not need it
            _quiet_log.debug("the task runs of an earlier attempt are not known: %r", error)
            return

        def end() -> None:
            with api_client() as client:
                end_task_runs(client, left, aborted("The attempt was killed. The run was resumed."))

        self._jobs.put(end)


@contextmanager
def _own_client() -> Iterator[None]:
    """Have Prefect's functions use a client of this thread: the engine closes its own when the flow run has ended."""
    _use_client(None)
    with SyncClientContext():
        yield


def _use_client(context: SyncClientContext | None) -> None:
    SyncClientContext.__var__.set(cast(SyncClientContext, context))
