"""What the flows share: a run session inside a flow run, its stages as Prefect tasks, its result in the UI."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from prefect import runtime
from prefect.artifacts import create_link_artifact, create_table_artifact
from prefect.events import emit_event
from prefect.futures import PrefectFuture
from prefect.logging import get_run_logger
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.secrets import block_secret
from gage_eval.errors import InputError
from gage_eval.marks import STAGES, Stage
from gage_eval.observability.events import Event, RunWarning, StageFailed, StageFinished
from gage_eval.observability.observer import Observer
from gage_eval.report.console import artifact_rows
from gage_eval.runs import RunFolder, RunOptions, RunOutcome, RunSession
from gage_eval.runs.names import new_name, slug
from gage_eval.runs.options import Locations, OutputOptions
from gage_eval.runs.publish import publish
from gage_eval.runs.record import FlowRunRecord, RunRecord
from gage_eval.runs.session import TASKS_AT_ONCE
from gage_eval.stages import StageResult, TaskPlan, run_dag
from tasks import STAGE_TASKS, active

Future = PrefectFuture[StageResult]


def task_runner() -> TaskRunner[PrefectFuture[Any]]:
    """Threads for every stage of the tasks under way, most of them waiting for the stage before."""
    return cast(TaskRunner[PrefectFuture[Any]], ThreadPoolTaskRunner(max_workers=TASKS_AT_ONCE * len(STAGES)))


@dataclass
class Watch:
    """Who started a flow in this process: told what happens, given the outcome."""

    observers: tuple[Observer, ...] = ()
    outcome: RunOutcome | None = None


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Watch the flow called inside."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def run_name() -> str:
    """Name of the flow run, which is the run's name: the one asked for, else a fresh one."""
    asked = OutputOptions.model_validate(runtime.flow_run.parameters.get("output", {}))
    return asked.run_id or new_name()


def run_in_flow(options: RunOptions, *, single: bool = False) -> RunOutcome:
    """Carry out a run inside the current flow run.

    Args:
        options: what is asked; without a run id the flow run's name is it.
        single: refuse a config of several tasks.

    Raises:
        GageError: what stopped the run; everything computed is kept.
    """
    options = _named(options)
    flow_run = FlowRunRecord(
        flow_run_id=str(runtime.flow_run.id),
        flow_run_name=str(runtime.flow_run.name),
        url=runtime.flow_run.ui_url,
    )
    watch = _WATCH.get() or Watch()
    observers = [_LogObserver(), *watch.observers]
    with RunSession(options, observers, secrets=block_secret, flow_run=flow_run) as session, active(session):
        if single and len(session.plan.tasks) != 1:
            raise InputError(
                f"{options.config} has {len(session.plan.tasks)} tasks; the flow 'evaluate' takes one, 'suite' many."
            )
        _run_tasks(session)
        outcome = publish(session)
        _show(outcome)
        watch.outcome = outcome
        return outcome


def _named(options: RunOptions) -> RunOptions:
    """The options with the flow run's name, resuming where this flow run was at work before (a retry in the UI)."""
    run_id = options.run_id or str(runtime.flow_run.name)
    resume = options.resume
    if not resume and (runtime.flow_run.run_count or 0) > 1:
        record = _record(options, run_id)
        ours = record.prefect if record is not None else None
        resume = ours is not None and ours.flow_run_id == str(runtime.flow_run.id)
    return options.model_copy(update={"run_id": run_id, "resume": resume})


def _record(options: RunOptions, run_id: str) -> RunRecord | None:
    try:
        return RunFolder.open(Locations.at(options.store, options.output_dir), run_id).record()
    except InputError:
        return None


def _run_tasks(session: RunSession) -> None:
    """Submit the whole DAG of every task and wait; the first failure is raised when all that could run has run.

    In a sequential run the next task is submitted when the one before has finished.
    """
    futures: list[Future] = []

    def call(stage: Stage, task: TaskPlan, /, **inputs: Future | None) -> Future:
        future: Future = STAGE_TASKS[stage].submit(run=session.run_id, task_id=task.task_id, inputs=inputs)
        futures.append(future)
        return future

    for task in session.plan.tasks:
        run_dag(task, call)
        if session.tasks_at_once == 1:
            _wait(futures)
    _wait(futures)
    for future in futures:
        if future.state.is_failed() or future.state.is_crashed():
            future.result()


def _wait(futures: Iterable[Future]) -> None:
    for future in futures:
        future.wait()


def _show(outcome: RunOutcome) -> None:
    """Leave the scores and the way to the report on the flow run's page."""
    key = slug(outcome.summary.name)
    create_table_artifact(
        key=f"{key}-scores", table=artifact_rows(outcome.summary), description=f"Scores of {outcome.run_id}"
    )
    report = outcome.folder.place("report.html")
    link = report if "://" in report else f"file://{report}"
    create_link_artifact(key=f"{key}-report", link=link, link_text=f"Report of {outcome.run_id}")
    emit_event(
        event="gage_eval.run.completed",
        resource={
            "prefect.resource.id": f"gage_eval.run.{outcome.run_id}",
            "prefect.resource.name": outcome.run_id,
        },
        payload={"run_id": outcome.run_id, "name": outcome.summary.name, "folder": outcome.folder.url},
    )


class _LogObserver:
    """Writes a line for every stage into the log of its task run."""

    def tell(self, event: Event) -> None:
        match event:
            case StageFinished(result):
                state = "cached" if result.cached else f"{result.seconds:.2f} s"
                get_run_logger().info("%s %s: %s %s", result.task_id, result.stage, state, result.counts)
            case StageFailed(task_id, stage, error):
                get_run_logger().error("%s %s: %s", task_id, stage, error)
            case RunWarning(message):
                get_run_logger().warning("%s", message)
