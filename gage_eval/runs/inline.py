"""The inline runner: the same DAG, in this process, without a Prefect server."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from gage_eval import stages
from gage_eval.marks import Stage
from gage_eval.observability.observer import Observer
from gage_eval.runs.options import RunOptions
from gage_eval.runs.publish import publish
from gage_eval.runs.session import RunOutcome, RunSession
from gage_eval.stages import Call, StageResult, TaskSpecs, run_dag

# Tasks side by side: enough that the tail of one overlaps the start of the next, few enough to stay small in memory.
TASKS_AT_ONCE = 4


def run_inline(options: RunOptions, observers: Iterable[Observer] = ()) -> RunOutcome:
    """Run all tasks here and publish the result.

    Raises:
        GageError: what stopped the run; everything computed is kept.
    """
    with RunSession(options, observers) as session:
        call = inline_call(session)
        tasks = session.plan.tasks
        if len(tasks) == 1:
            run_dag(tasks[0], call)
        else:
            _side_by_side(tasks, call, stop=session.runtime.close)
        return publish(session)


def inline_call(session: RunSession) -> Call[StageResult]:
    """Calls a stage right here."""

    def call(stage: Stage, task: TaskSpecs, /, **inputs: StageResult | None) -> StageResult:
        result: StageResult = getattr(stages, stage)(session.env, getattr(task, stage), **inputs)
        return result

    return call


def _side_by_side(tasks: Iterable[TaskSpecs], call: Call[StageResult], *, stop: Callable[[], None]) -> None:
    """Run several tasks; the first failure lets those under way end and starts no other.

    An interruption (Ctrl-C) ends them at once: ``stop`` cancels what they have in flight.
    """
    pool = ThreadPoolExecutor(TASKS_AT_ONCE, thread_name_prefix="task")
    try:
        futures = [pool.submit(run_dag, task, call) for task in tasks]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = next((error for future in done if (error := future.exception())), None)
        if failed is not None:
            raise failed
    except KeyboardInterrupt:
        stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
