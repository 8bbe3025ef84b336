"""One Prefect task per stage.

Prefect's own cache is off, because the store is the only cache. `flows.shown` runs a stage as a plain function and
reports it as a run of its task, so a stage does not need the API.
"""

from collections.abc import Callable
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

from gage_eval import stages
from gage_eval.marks import STAGES, Stage
from gage_eval.stages import StageResult


def _stage_task(stage: Stage) -> Task[..., Any]:
    function: Callable[..., StageResult] = getattr(stages, stage)
    return task(name=stage, cache_policy=NO_CACHE, persist_result=False)(function)


STAGE_TASKS: dict[Stage, Task[..., Any]] = {stage: _stage_task(stage) for stage in STAGES}
