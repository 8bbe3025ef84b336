"""Carry out a run in this process, with or without a Prefect flow run that shows it."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context

from gage_eval import stages
from gage_eval.engine.host import EngineHost
from gage_eval.marks import Stage
from gage_eval.observability.events import TaskFailed, TaskFinished, TaskStarted
from gage_eval.observability.observer import Observer
from gage_eval.runs.fetching import check_keys, fetch_data, fetch_hub_data
from gage_eval.runs.launchers import Launchers, local_launchers
from gage_eval.runs.options import RunOptions
from gage_eval.runs.publish import publish
from gage_eval.runs.session import RunOutcome, RunSession
from gage_eval.stages import Call, StageResult, TaskPlan, run_dag

_WAKE_EVERY_S = 0.5


def run_inline(
    options: RunOptions, observers: Iterable[Observer] = (), *, host: EngineHost | None = None
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


def carry_out(session: RunSession, launchers: Launchers | None = None) -> RunOutcome:
    """Run all tasks of a session in this process and publish the result.

    Args:
        session: the run.
        launchers: what starts the shards of models that are served elsewhere; by default processes on this machine.

    Raises:
        GageError: what stopped the run; everything computed is kept.
        RunCancelled: the session was cancelled.
    """
    # Before any engine starts and any request is sent.
    if session.data.missing(session.plan.origin_files):
        check_keys(session.plan)
    fetch_data(session.plan.origin_files, session.data, session.observer, session.env.check)
    fetch_hub_data(session.plan, session.store, session.observer, session.env.check)
    call = stage_call(session)
    tasks = session.plan.tasks
    if any(task.placed for task in tasks):
        _in_waves(session, launchers or local_launchers(session.folder.engines))
    elif len(tasks) == 1 or session.tasks_at_once == 1:
        for task in tasks:
            _run_task(session, task, call)
    else:
        _side_by_side(session, call)
    return publish(session)


def stage_call(session: RunSession) -> Call[StageResult]:
    """A `Call` that runs stages in this process."""

    def call(stage: Stage, task: TaskPlan, /, **inputs: StageResult | None) -> StageResult:
        result: StageResult = getattr(stages, stage)(session.env, getattr(task, stage), **inputs)
        return result

    return call


def _run_task(session: RunSession, task: TaskPlan, call: Call[StageResult]) -> None:
    """Run all stages of a task."""
    tell, began = session.observer.tell, time.monotonic()
    tell(TaskStarted(task.task_id))
    try:
        run_dag(task, call)
    except BaseException as error:
        tell(TaskFailed(task.task_id, str(error), type(error).__name__, not isinstance(error, Exception)))
        raise
    tell(TaskFinished(task.task_id, time.monotonic() - began))


def _side_by_side(session: RunSession, call: Call[StageResult]) -> None:
    """Run several tasks. After the first failure, running tasks finish and no other task starts.

    An interruption (Ctrl-C, a signal) ends them soon: requests in flight are cancelled.
    """
    _apart(session, lambda: _until_all_end(session, call))


def _in_waves(session: RunSession, launchers: Launchers) -> None:
    from gage_eval.runs.waves import Waves

    _apart(session, Waves(session, launchers).run)


def _apart(session: RunSession, tasks: Callable[[], None]) -> None:
    work = _Apart(tasks)
    try:
        work.wait()
    except BaseException:
        if not work.ended:
            session.cancel()
            work.wait()
        raise
    work.result()


def _until_all_end(session: RunSession, call: Call[StageResult]) -> None:
    with ThreadPoolExecutor(session.tasks_at_once, thread_name_prefix="task") as pool:
        futures = [pool.submit(_run_task, session, task, call) for task in session.plan.tasks]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            future.cancel()
        failed = next((error for future in done if (error := future.exception())), None)
        if failed is not None:
            raise failed


class _Apart:
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
