"""One Prefect task a stage.

A task gets the run's name, the task's id and the results of the stages before it: small values that Prefect can show.
The run itself (store, engine, specs) is looked up in this process. The store is the only cache: Prefect's own is off,
and a stage that hit returns a state of its own, which the server records as Cached.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed

from gage_eval import stages
from gage_eval.marks import STAGES, Stage
from gage_eval.runs import RunSession
from gage_eval.stages import StageResult

_ACTIVE: dict[str, RunSession] = {}


@contextmanager
def active(session: RunSession) -> Iterator[None]:
    """Let the tasks of this process find a run by its name."""
    _ACTIVE[session.run_id] = session
    try:
        yield
    finally:
        del _ACTIVE[session.run_id]


def _stage_task(stage: Stage) -> Task[..., Any]:
    def run_stage(run: str, task_id: str, inputs: dict[str, StageResult | None]) -> StageResult | State[StageResult]:
        session = _ACTIVE[run]
        spec = getattr(session.plan.task(task_id), stage)
        result: StageResult = getattr(stages, stage)(session.env, spec, **inputs)
        if result.cached:
            return Completed(name="Cached", message="the result was in the store", data=result)
        return result

    function = getattr(stages, stage)
    run_stage.__name__ = stage
    run_stage.__doc__ = function.__doc__
    as_task = task(
        name=stage, task_run_name=f"{stage} {{task_id}}", cache_policy=NO_CACHE, persist_result=False, log_prints=False
    )
    return as_task(run_stage)


STAGE_TASKS: dict[Stage, Task[..., Any]] = {stage: _stage_task(stage) for stage in STAGES}
