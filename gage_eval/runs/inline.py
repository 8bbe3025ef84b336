"""The inline runner: the same DAG, in this process, without a Prefect server."""

from collections.abc import Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from gage_eval import stages
from gage_eval.marks import Stage
from gage_eval.observability.observer import Observer
from gage_eval.runs.options import RunOptions
from gage_eval.runs.publish import publish
from gage_eval.runs.session import RunOutcome, RunSession
from gage_eval.stages import Call, StageResult, TaskPlan, run_dag


def run_inline(options: RunOptions, observers: Iterable[Observer] = ()) -> RunOutcome:
    """Run all tasks here and publish the result.

    Raises:
        GageError: what stopped the run; everything computed is kept.
    """
    with RunSession(options, observers) as session:
        call = inline_call(session)
        tasks = session.plan.tasks
        if len(tasks) == 1 or session.tasks_at_once == 1:
            for task in tasks:
                run_dag(task, call)
        else:
            _side_by_side(session, call)
        return publish(session)


def inline_call(session: RunSession) -> Call[StageResult]:
    """Calls a stage right here."""

    def call(stage: Stage, task: TaskPlan, /, **inputs: StageResult | None) -> StageResult:
        result: StageResult = getattr(stages, stage)(session.env, getattr(task, stage), **inputs)
        return result

    return call


def _side_by_side(session: RunSession, call: Call[StageResult]) -> None:
    """Run several tasks; the first failure lets those under way end and starts no other.

    An interruption (Ctrl-C) ends them at once: what they have in flight is cancelled.
    """
    pool = ThreadPoolExecutor(session.tasks_at_once, thread_name_prefix="task")
    try:
        futures = [pool.submit(run_dag, task, call) for task in session.plan.tasks]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = next((error for future in done if (error := future.exception())), None)
        if failed is not None:
            raise failed
    except KeyboardInterrupt:
        session.runtime.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
