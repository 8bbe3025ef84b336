"""A run as a flow run: plan, graph, publish. Prefect's engine runs each stage as a task."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from prefect import runtime
from prefect._internal.result_records import ResultRecord
from prefect.client.schemas import State
from prefect.futures import PrefectFuture
from prefect.utilities.annotations import opaque, quote
from prefect.utilities.urls import url_for

from blocks import PrefectBlocks, open_store
from flows.flow_run import FlowRunPage
from flows.forms import RunForm
from flows.own import OwnRun
from flows.serving import ServeLauncher
from flows.states import completed
from gage_eval.base.errors import GageError
from gage_eval.base.stages import StageResult
from gage_eval.runs import RunOptions, RunSession
from gage_eval.runs.folder import record_of
from gage_eval.runs.graph import Node
from gage_eval.runs.inline import carry_out, stage_call
from gage_eval.runs.names import is_name, slug
from gage_eval.runs.options import Locations, bundle_of
from gage_eval.runs.record import FlowRunRecord
from tasks import STAGE_TASKS


def run_name() -> str:
    """Name of the flow run and of the run: that of the run to resume, else the name that the flow run has already."""
    resumed = RunForm.model_validate(runtime.flow_run.parameters.get("run", {})).resume
    name = resumed or str(runtime.flow_run.name)
    return name if is_name(name) else slug(name)


def evaluated(options: RunOptions | None = None) -> State[Any]:
    """Carry out a run inside the current flow run.

    Args:
        options: of the form; not read where the code of this process asked for the run (`OwnRun`).

    Returns:
        The final state: its message is the score, its data the run's folder.

    Raises:
        GageError: what stopped the run; everything computed is kept.
        RunCancelled: the flow run was cancelled.
        Pause: the flow run was suspended.
    """
    own = OwnRun.current()
    if own is None:
        assert options is not None, "a flow of a worker has a form"
        own = OwnRun(_of_worker(options))
    record = own.flow_run or _flow_run(own.options)
    page = own.page = FlowRunPage(record, own.observers)
    try:
        with (
            page.shown(),
            RunSession(
                own.options,
                page.observers,
                blocks=PrefectBlocks(),
                flow_run=record,
                host=own.host,
                launcher=ServeLauncher(),
            ) as session,
            page.watched(session),
        ):
            own.opened(session)
            own.outcome = carry_out(session, TaskRuns(session))
            page.publish(own.outcome)
    finally:
        if own.flow_run is None:
            # The process of a worker or a night ends or goes on when the page is complete.
            page.finish(page.patience_s)
    return completed(own.outcome)


class TaskRuns:
    """Carries out the nodes of a graph as task runs of the current flow run.

    Args:
        session: the run.
    """

    def __init__(self, session: RunSession) -> None:
        self._call = stage_call(session)

    def submit(self, node: Node, inputs: Mapping[str, PrefectFuture[Any]]) -> PrefectFuture[Any]:
        task = STAGE_TASKS[node.stage].with_options(task_run_name=f"{node.stage} {node.task.task_id}")
        # Prefect looks for futures inside of all arguments, in dataclasses too. Only the inputs are some.
        compute = quote(partial(self._call, node.stage, node.task))
        return task.submit(compute, **{name: opaque(future) for name, future in inputs.items()})

    def result(self, future: PrefectFuture[Any]) -> StageResult:
        # Its own `result` raises inside an event loop, which a cancelled run would stop.
        future.wait()
        state = future.state
        outcome = state.data.result if isinstance(state.data, ResultRecord) else state.data
        if isinstance(outcome, StageResult):
            return outcome
        if isinstance(outcome, BaseException):
            raise outcome
        raise GageError(f"Prefect ended a stage as {state.name}: {state.message}")


def _flow_run(options: RunOptions) -> FlowRunRecord:
    """The current flow run, for run.json."""
    scheduled = runtime.flow_run.scheduled_start_time
    return FlowRunRecord(
        flow_run_id=str(runtime.flow_run.id),
        flow_run_name=str(runtime.flow_run.name),
        url=url_for("flow-run", obj_id=runtime.flow_run.id),
        bundle=bundle_of(options.config),
        queued_s=None if scheduled is None else max((datetime.now(UTC) - scheduled).total_seconds(), 0.0),
    )


def _of_worker(options: RunOptions) -> RunOptions:
    """The options with the flow run's name. They resume the run if this flow run has run before (a retry in the UI)."""
    options = options.model_copy(update={"store": open_store(options.store)})
    run_id = str(runtime.flow_run.name)
    resume = options.resume
    if not resume:
        record = record_of(Locations.at(options.store, options.output_dir), run_id)
        ours = record.prefect if record is not None else None
        resume = ours is not None and ours.flow_run_id == str(runtime.flow_run.id)
    return options.model_copy(update={"run_id": run_id, "resume": resume})
