"""The processes that score for a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gage_eval.planning.specs import TaskPlan
from gage_eval.stages import Env, StageResult
from gage_eval.store import Store

if TYPE_CHECKING:
    from gage_eval.metrics.processes import ScoringProcesses


@contextmanager
def scoring_processes(store: Store, count: int | None) -> Iterator["ScoringProcesses | None"]:
    """Processes that score until the block is left; None where this process scores, for a count of None or 1."""
    if count is None or count < 2:
        yield None
        return
    from gage_eval.metrics.processes import ScoringProcesses

    processes = ScoringProcesses(store.url, count)
    try:
        yield processes
    finally:
        processes.close()


def score_ahead(env: Env, task: TaskPlan, samples: StageResult) -> None:
    """Have the task's finished rows scored while the others are asked, if there are processes for it."""
    if env.processes is not None:
        from gage_eval.stages.scores_ahead import ScoresAhead

        env.ahead[task.task_id] = ScoresAhead(env.processes, task.auto_eval, samples.outputs["samples"])
