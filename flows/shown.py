"""Shows a run at a Prefect API: stages as task runs, messages as log lines, scores as artifacts, its end as a state.

`gage_eval.runs` carries out the run in this process. A running run does not need the API.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias, cast
from uuid import UUID, uuid4

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas import State
from prefect.client.schemas.objects import Constant, FlowRunResult, Parameter, TaskRunResult
from prefect.client.schemas.responses import SetStateStatus
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled, Completed, Failed, Running

from blocks import PrefectBlocks
from flows.events import post_artifact, post_event
from flows.log_lines import log_lines
from flows.lost_runs import INNER_HEARTBEAT
from flows.page import report_markdown, score_line, stage_label, stage_line, tags_of
from flows.progress import Progress
from flows.reporter import Report, Reporter
from flows.serving import ServeLauncher
from flows.watch import Pulse
from gage_eval import server
from gage_eval.canonical import canonical_json
from gage_eval.engine.host import EngineHost
from gage_eval.errors import GageError
from gage_eval.marks import Stage
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
from gage_eval.observability.observer import Observer, Observers
from gage_eval.planning.dag import run_dag
from gage_eval.planning.specs import TaskPlan
from gage_eval.report.console import artifact_rows, counted, readable
from gage_eval.runs import RunOptions, RunOutcome, RunSession
from gage_eval.runs.fetching import fetch_line
from gage_eval.runs.inline import carry_out
from gage_eval.runs.names import slug
from gage_eval.runs.record import FlowRunRecord, reported
from tasks import STAGE_TASKS

# (task id, stage); and the stages that the inputs of a stage come from, by input.
StageId: TypeAlias = tuple[str, str]
Inputs: TypeAlias = dict[str, StageId]

_LONGEST_LINE = 10_000


class ShownRun:
    """An observer that reports a run to its flow run.

    Args:
        flow_run: the flow run.
        observers: the other observers of the run. Warnings about the API are sent to them too.
        owner_at: API of the flow run if this process manages its state: it sets Running, and ends the run if it is
            cancelled. None if a worker does.
        in_flow_run: the run is a part of another flow run, on a worker. It sends heartbeats, so that it does not stay
            Running when the worker's node is lost.
    """

    def __init__(
        self,
        flow_run: FlowRunRecord,
        observers: Iterable[Observer] = (),
        *,
        owner_at: str | None,
        in_flow_run: bool = False,
    ) -> None:
        self._id = UUID(flow_run.flow_run_id)
        self._observer: Observer = Observers(observers)
        self._session: RunSession | None = None
        self._inputs: dict[StageId, Inputs] = {}
        self._task_runs: dict[StageId, UUID] = {}
        self._cancelled = False
        self._ended = False
        self._silent = False
        self._pulse = _pulse(self._id) if in_flow_run else None
        self._is_owner = owner_at is not None
        self._api_url = owner_at
        self._reporter = Reporter(owner_at, watch=self._look if self._is_owner else None, on_silence=self._warn)
        self._progress = Progress(self._id, self._reporter, self._task_runs.get, self._say)

    def carry_out(self, options: RunOptions, flow_run: FlowRunRecord, host: EngineHost | None = None) -> RunOutcome:
        """Carry out a run and report its events.

        Args:
            options: what is asked.
            flow_run: the flow run, for run.json.
            host: keeps engines running for other runs; by default the engines of this run stop at its end.

        Raises:
            GageError: what stopped the run; everything computed is kept.
            RunCancelled: the flow run was cancelled.
        """
        observers = [self, self._observer]
        with (
            log_lines(self._say),
            RunSession(
                options,
                observers,
                blocks=PrefectBlocks(self._api_url),
                flow_run=flow_run,
                host=host,
                launcher=ServeLauncher(self._api_url),
            ) as session,
        ):
            self._session, self._observer = session, session.observer
            self._reporter.send(self._tagged(tags_of(session.plan)))
            for task in session.plan.tasks:
                self._inputs |= _inputs_of(task)
            if self._cancelled:
                session.cancel()
            page = server.run_page(PREFECT_API_URL.value(), session.folder.locations, session.run_id)
            if page is not None:
                self._link(session, page)
            outcome = carry_out(session)
            self._publish(outcome, page)
            return outcome

    def end(self, state: State[Any]) -> None:
        """Report the final state of the flow run."""

        def report(client: SyncPrefectClient) -> None:
            result = client.set_flow_run_state(self._id, state)
            if result.status != SetStateStatus.ACCEPT and not state.is_cancelled():
                # It was cancelled just after the run had ended: the API accepts only Cancelled.
                current = client.read_flow_run(self._id).state
                if current is not None and current.is_cancelling():
                    message = f"Cancelled too late: the run ended as {state.name}."
                    client.set_flow_run_state(self._id, Cancelled(message=message))
            self._ended = True

        self._reporter.send(report)

    def close(self) -> None:
        """Wait a few seconds for the last reports. If the API does not take them, warn; the run itself is complete."""
        delivered = self._reporter.close()
        session = self._session
        if not delivered and not self._silent:
            self._warn()
        if session is not None and self._ended:
            # If this fails, a later command reports the end again (`flows.settle`).
            with suppress(GageError):
                session.folder.update(reported)

    def tell(self, event: Event) -> None:
        match event:
            case RunStarted():
                if self._is_owner:
                    self._reporter.send(self._running)
                tasks = counted(len(event.tasks), "task")
                self._say(f"{event.config_name} · {tasks} · run {event.run_id}", logging.INFO)
            case StageStarted(task_id, stage):
                self._reporter.send(self._started((task_id, stage)))
            case StageProgress():
                self._progress.tell(event)
            case StageFinished(result):
                name = "Cached" if result.cached else "Completed"
                line = stage_line(result)
                state: State[Any] = Completed(name=name, message=line.partition(": ")[2] or None)
                self._stage_ended((result.task_id, result.stage), state, line)
            case StageFailed(task_id, stage, error, _, True):
                line = f"{stage_label(task_id, stage)}: stopped"
                self._stage_ended((task_id, stage), Cancelled(message=readable(error) or None), line)
            case StageFailed(task_id, stage, error):
                line = f"{stage_label(task_id, stage)}: {error}"
                self._stage_ended((task_id, stage), Failed(message=readable(error)), line, logging.ERROR)
            case FetchStarted():
                self._say(fetch_line(event), logging.INFO)
            case RunWarning(message):
                self._say(message, logging.WARNING)

    def _say(self, text: str, level: int) -> None:
        """Add a line to the flow run's log."""
        self._reporter.log(self._line(text, level))

    def _tagged(self, tags: list[str]) -> Report:
        def report(client: SyncPrefectClient) -> None:
            there = client.read_flow_run(self._id).tags
            client.update_flow_run(self._id, tags=sorted({*there, *tags}))

        return report

    def _running(self, client: SyncPrefectClient) -> None:
        client.set_flow_run_state(self._id, Running())

    def _started(self, stage_id: StageId) -> Report:
        task_id, stage = stage_id
        new_id = uuid4()

        def report(client: SyncPrefectClient) -> None:
            inputs: dict[str, list[TaskRunResult | FlowRunResult | Parameter | Constant]] = {
                name: [TaskRunResult(id=self._task_runs[source])]
                for name, source in self._inputs.get(stage_id, {}).items()
                if source in self._task_runs
            }
            # A retried flow run has the task run already.
            run = client.create_task_run(
                STAGE_TASKS[cast(Stage, stage)],
                self._id,
                dynamic_key=f"{stage} {task_id}",
                id=new_id,
                name=f"{stage} {task_id}",
                state=Running(),
                task_inputs=inputs,
            )
            self._task_runs[stage_id] = run.id
            if run.state is None or not run.state.is_running():
                client.set_task_run_state(run.id, Running(), force=True)

        return report

    def _stage_ended(self, stage_id: StageId, state: State[Any], text: str, level: int = logging.INFO) -> None:
        line = self._line(text, level)
        self._progress.ended(stage_id)

        def report(client: SyncPrefectClient) -> None:
            run_id = self._task_runs.get(stage_id)
            if run_id is not None:
                client.create_logs([line | {"task_run_id": str(run_id)}])
                client.set_task_run_state(run_id, state, force=True)

        self._reporter.send(report)

    def _link(self, session: RunSession, page: str) -> None:
        """Show on the flow run's page where its samples and answers can be looked at, from its start on."""
        text = f"[Samples and answers of {session.run_id}]({page})"
        self._artifact(f"{slug(session.plan.name)}-viewer", "markdown", text, f"Viewer of {session.run_id}")
        self._say(f"Samples and answers: {page}", logging.INFO)

    def _publish(self, outcome: RunOutcome, page: str | None) -> None:
        """Show the scores and the report on the flow run's page."""
        key = slug(outcome.summary.name)
        table = canonical_json(artifact_rows(outcome.summary)).decode()
        self._artifact(f"{key}-scores", "table", table, f"Scores of {outcome.run_id}")
        self._artifact(f"{key}-report", "markdown", report_markdown(outcome, page), f"Report of {outcome.run_id}")
        self._say(score_line(outcome.summary), logging.INFO)
        resource = {
            "prefect.resource.id": f"gage_eval.run.{outcome.run_id}",
            "prefect.resource.name": outcome.run_id,
        }
        payload = {"run_id": outcome.run_id, "name": outcome.summary.name, "folder": outcome.folder.url}
        self._reporter.send(partial(post_event, event="gage_eval.run.completed", resource=resource, payload=payload))

    def _artifact(self, key: str, kind: str, data: str, description: str) -> None:
        self._reporter.send(lambda client: post_artifact(client, str(self._id), key, kind, data, description))

    def _look(self, client: SyncPrefectClient) -> None:
        """Send a heartbeat if it is due, and end the run if the flow run was cancelled."""
        if self._pulse is not None and not self._ended:
            self._pulse.beat(client)
        if self._cancelled:
            return
        try:
            state = client.read_flow_run(self._id).state
        except ObjectNotFound:
            return
        if state is None or not (state.is_cancelling() or state.is_cancelled()):
            return
        self._cancelled = True
        if self._session is not None:
            self._observer.tell(RunWarning("the flow run was cancelled at the Prefect API; the run stops."))
            self._session.cancel()

    def _warn(self) -> None:
        self._silent = True
        self._observer.tell(
            RunWarning(
                "the Prefect API does not answer. The run continues without it; its page in the UI may be out of date."
            )
        )

    def _line(self, text: str, level: int) -> dict[str, Any]:
        return {
            "name": "gage_eval",
            "level": level,
            "message": readable(text[:_LONGEST_LINE]),
            "timestamp": _now(),
            "flow_run_id": str(self._id),
        }


def _inputs_of(task: TaskPlan) -> dict[StageId, Inputs]:
    """For each stage of a task, the stages that its inputs come from."""
    found: dict[StageId, Inputs] = {}

    def call(stage: Stage, task: TaskPlan, /, **inputs: StageId | None) -> StageId:
        stage_id = task.task_id, stage
        found[stage_id] = {name: source for name, source in inputs.items() if source is not None}
        return stage_id

    run_dag(task, call)
    return found


def _pulse(flow_run_id: UUID) -> Pulse:
    """The heartbeats of a run that is a part of another flow run."""
    resource = {"prefect.resource.id": f"prefect.flow-run.{flow_run_id}"}
    return Pulse(flow_run_id, partial(post_event, event=INNER_HEARTBEAT, resource=resource))


def _now() -> str:
    return datetime.now(UTC).isoformat()
