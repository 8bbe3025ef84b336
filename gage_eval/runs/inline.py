"""Carry out a run in this process, with or without a Prefect flow run that shows it."""

import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from contextvars import copy_context

from gage_eval.base.stages import Stage, StageResult
from gage_eval.engine.host import SharedEngines
from gage_eval.observability.observer import Observer
from gage_eval.pipeline import stages
from gage_eval.pipeline.dag import Call
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.runs.fetching import check_keys, fetch_data, fetch_hub_data
from gage_eval.runs.graph import Executor, GraphRun, Threads
from gage_eval.runs.options import RunOptions
from gage_eval.runs.publish import publish
from gage_eval.runs.session import RunOutcome, RunSession

_WAKE_EVERY_S = 0.5


def run_inline(
    options: RunOptions, observers: Iterable[Observer] = (), *, host: SharedEngines | None = None
) -> RunOutcome:
    """Run all tasks in this process, without a Prefect API, and publish the result.

    Args:
        options: what is asked.
        observers: receive the run's events.
        host: keeps engines running for other runs; by default the engines of this run stop at its end.

    Raises:
        GageError: what stopped the run; everything computed is kept.
    """
    with RunSession(options, observers, host=host) as session:
        return carry_out(session)


def carry_out(session: RunSession, executor: Executor | None = None) -> RunOutcome:
    """Run all tasks of a session and publish the result.

    Args:
        session: the run.
        executor: carries out the stages; by default threads of this process.

    Raises:
        GageError: what stopped the run; everything computed is kept.
        RunCancelled: the session was cancelled.
    """
    # Before any engine starts and any request is sent.
    if session.data.missing(session.plan.origin_files):
        check_keys(session.plan)
    fetch_data(session.plan.origin_files, session.data, session.observer, session.env.check)
    fetch_hub_data(session.plan, session.store, session.observer, session.env.check)
    # All rows, or those of the first look.
    tasks = [task.first_look for task in session.plan.tasks]
    at_once = session.tasks_at_once if executor is not None or len(tasks) > 1 else 1
    with Threads(stage_call(session), at_once) if executor is None else nullcontext(executor) as workers:
        run = GraphRun(tasks, workers, session.observer, at_once, session.is_preferred, session.next_look)
        if executor is None and at_once == 1:
            run.carry_out()
        else:
            _apart(session, run.carry_out)
    return publish(session)


def stage_call(session: RunSession) -> Call[StageResult]:
    """A `Call` that runs stages in this process."""

    def call(stage: Stage, task: TaskPlan, /, **inputs: StageResult | None) -> StageResult:
        samples = inputs.get("samples")
        if stage == "preprocess" and samples is not None:
            task.check_labels(session.store.artifact(samples.outputs["samples"]))
        result: StageResult = getattr(stages, stage)(session.env, getattr(task, stage), **inputs)
        session.stage_ended(task, stage)
        return result

    return call


def _apart(session: RunSession, tasks: Callable[[], None]) -> None:
    work = _WorkThread(tasks)
    try:
        work.wait()
    except BaseException:
        if not work.ended:
            session.cancel()
            work.wait()
        raise
    work.result()


class _WorkThread:
    """Work in a separate thread. The main thread waits for it on a bare lock.

    An interruption may be raised at any instruction of the main thread. Inside the locks of a thread pool it could
    leave one of them held, and the pool would wait for it forever. Acquiring a bare lock is one instruction.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self.ended = False
        self._work = work
        self._error: BaseException | None = None
        self._pending = threading.Lock()
        self._pending.acquire()
        threading.Thread(target=copy_context().run, args=(self._run,), name="tasks", daemon=True).start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            self._error = error
        finally:
            self.ended = True
            self._pending.release()

    def wait(self) -> None:
        """Wait until the work has ended."""
        # Wake up now and then: a signal that arrives just before the wait is handled only then.
        while not self.ended and not self._pending.acquire(timeout=_WAKE_EVERY_S):
            pass

    def result(self) -> None:
        """Raise what the work raised."""
        if self._error is not None:
            raise self._error
