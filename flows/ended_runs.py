"""Reports to a Prefect API the ends of runs that were killed, or that ended while the API was gone."""

import logging
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas import State
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import TaskRun
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Completed, Failed

from flows.api import api_client, is_unanswered
from flows.states import aborted
from gage_eval.report.console import readable
from gage_eval.runs import RunFolder
from gage_eval.runs.record import reported
from gage_eval.runs.results.stored import StoredRun

_REQUEST_S = 3.0

_log = logging.getLogger(__name__)


def report_at(api_url: str, runs: Iterable[StoredRun]) -> None:
    """Report the ends of runs to one API, until it does not answer."""
    with api_client(api_url, timeout_s=_REQUEST_S, retries=0) as client:
        for run in runs:
            try:
                report_end(client, run)
            except Exception as error:  # noqa: BLE001 - the next command tries again
                _log.debug("the end of run %s could not be reported: %r", run.run_id, error)
                if is_unanswered(error):
                    return


def report_end(client: SyncPrefectClient, run: StoredRun) -> None:
    """Report the end of a run whose process is gone, unless the API knows it. Record that it is reported."""
    flow_run = run.record.prefect
    assert flow_run is not None
    flow_run_id = UUID(flow_run.flow_run_id)
    try:
        state = client.read_flow_run(flow_run_id).state
    except ObjectNotFound:
        state = None
    if state is not None and not state.is_final() and not state.is_scheduled():
        end = Cancelled(message="The process of the run is gone.") if state.is_cancelling() else _end(run)
        end_task_runs(client, open_task_runs(client, flow_run_id), end)
        client.set_flow_run_state(flow_run_id, end)
    # Listings open the folder read-only.
    RunFolder.open(run.folder.locations, run.run_id).update(reported)


def _end(run: StoredRun) -> State[Any]:
    match run.status:
        case "completed":
            return Completed()
        case "failed":
            return Failed(message=run.record.error and readable(run.record.error))
        case "interrupted":
            return Cancelled(message="The run was stopped. What was computed is kept.")
        case "running":
            return aborted(f"The process of the run was killed. To resume it: {run.folder.again}")


def open_task_runs(client: SyncPrefectClient, flow_run_id: UUID) -> list[TaskRun]:
    """The task runs of a flow run that have not ended. Those of a killed attempt stay so."""
    ours = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    task_runs: list[TaskRun] = []
    while page := client.read_task_runs(flow_run_filter=ours, offset=len(task_runs)):
        task_runs += page
    return [task_run for task_run in task_runs if task_run.state is None or not task_run.state.is_final()]


def end_task_runs(client: SyncPrefectClient, task_runs: Iterable[TaskRun], end: State[Any]) -> None:
    """End task runs as their flow run ended."""
    for task_run in task_runs:
        state = Completed() if end.is_completed() else end.model_copy(update={"id": None})
        client.set_task_run_state(task_run.id, state, force=True)
