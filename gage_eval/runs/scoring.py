"""The processes that score for a run."""

import os
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING

from gage_eval.report.summary import Summary
from gage_eval.store import Store

# A share of the run's time, and seconds, that are worth a hint; and how many processes it names at most.
_LONG_SHARE, _LONG_S, _MANY = 0.2, 10.0, 8

if TYPE_CHECKING:
    from gage_eval.scoring.metrics.processes import ScoringProcesses


def scoring_processes(store: Store, count: int | None) -> "AbstractContextManager[ScoringProcesses | None]":
    """Processes that score until the block is left; None where this process scores, for a count of None or 1."""
    if count is None or count < 2:
        return nullcontext()
    from gage_eval.scoring.metrics.processes import ScoringProcesses

    return closing(ScoringProcesses(store.url, count))


def hint(summary: Summary, setting: int | None) -> str | None:
    """A sentence about processes that score, where a run waited long for its scores; None elsewhere.

    They do not run programs, so none is said where programs took the time.

    Args:
        summary: of the run.
        setting: of the processes that score, if the user made it.
    """
    timings, cores = summary.run.timings, os.cpu_count() or 1
    seconds = timings.evaluation_s
    if any(task.executions is not None for task in summary.tasks):
        return None
    if setting is not None or cores < 2 or seconds < max(_LONG_S, _LONG_SHARE * timings.wall_runtime_s):
        return None
    count = min(cores, _MANY)
    return f"auto_eval took {seconds:.0f} s. GAGE_EVAL_AUTOEVAL_WORKERS={count} scores with {count} processes at once."
