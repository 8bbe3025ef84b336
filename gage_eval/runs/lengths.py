"""Lengths of earlier answers of the models that a run asks, next to its token limits."""

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from gage_eval.base.errors import GageError
from gage_eval.pipeline.specs import Plan, TaskPlan
from gage_eval.report.model_run import under_test
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.stored import stored_runs
from gage_eval.stats.quantiles import quantile

_LIMITS = ("max_new_tokens", "max_tokens", "max_completion_tokens")
_SHARE = 0.05
# Earlier runs that are looked at, and the fewest answers that say anything of their 95th percentile.
_MOST_RUNS, _FEWEST = 200, 20


@dataclass(frozen=True)
class ShortLimit:
    """A token limit that more than 5 % of earlier answers do not fit.

    Attributes:
        task_id: of the plan.
        run_id: the newest run in which the same model answered the task's samples.
        limit: tokens of an answer.
        answers: of that run whose length is known. Those that looped are left out: they end nowhere.
        p95: the 95th percentile of their tokens; answers that were cut count as long as they are, so it may be more.
        cut: the share of answers that are longer, or were cut at a length of at least the limit.
    """

    task_id: str
    run_id: str
    limit: int
    answers: int
    p95: float
    cut: float

    @property
    def sentence(self) -> str:
        """What is to be expected, and what to do."""
        return (
            f"{self.task_id}: the longest 5 % of {self.answers:,} earlier answers (run {self.run_id}) have "
            f"{self.p95:,.0f} tokens or more, and the limit is {self.limit:,}: about {100 * self.cut:.1f} % would be "
            "cut. Raise max_new_tokens."
        )


def short_limits(plan: Plan, locations: Locations) -> list[ShortLimit]:
    """The token limits of a plan that are too short for the answers of earlier runs.

    Args:
        plan: its tasks are those of an earlier run that have the same name and a model of the same name.
        locations: where runs are.
    """
    wanted = {task.task_id: (task, limit) for task in plan.tasks if (limit := _limit(task)) is not None}
    short = []
    for stored in islice(stored_runs(locations), _MOST_RUNS):
        if not wanted:
            break
        with suppress(GageError):
            models = stored.record.models
            for task_id, (task, limit) in list(wanted.items()):
                if task.infer.model_name in {model.name for model in under_test(models, task_id)}:
                    lengths, cut = _lengths(RunReader.open(locations, stored.run_id).task(task_id))
                    if len(lengths) >= _FEWEST:
                        del wanted[task_id]
                        share = float(np.mean((lengths > limit) | (cut & (lengths >= limit))))
                        p95 = quantile(lengths.astype(np.float64), 1 - _SHARE)
                        if share > _SHARE and p95 is not None:
                            short.append(ShortLimit(task_id, stored.run_id, limit, len(lengths), p95, share))
    return short


def _limit(task: TaskPlan) -> int | None:
    """The most tokens of one answer; None where none is set, or where an answer takes several requests."""
    spec = task.infer
    several = spec.tool_rounds or spec.agent is not None or spec.user is not None or spec.follow_up is not None
    if several or task.preprocess.kind not in ("chat", "completion"):
        return None
    params = {**(spec.backend_config.get("default_params") or {}), **spec.params, **task.preprocess.params}
    return next((params[name] for name in _LIMITS if isinstance(params.get(name), int)), None)


def _lengths(task: TaskReader) -> tuple["np.ndarray[Any, np.dtype[np.int64]]", "np.ndarray[Any, np.dtype[np.bool_]]"]:
    """Tokens of the answers, and which of them were cut."""
    rows = [
        (row["completion_tokens"], row["status"] == "truncated")
        for part in task.parts
        for row in task.answers(part).select(["completion_tokens", "status"]).to_pylist()
        if row["completion_tokens"] is not None and row["status"] in ("ok", "truncated")
    ]
    return np.array([tokens for tokens, _ in rows], np.int64), np.array([cut for _, cut in rows], np.bool_)
