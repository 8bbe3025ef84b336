"""Events of single samples: answers, retries, scores and rejects."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.engine.episodes import Outcome
from gage_eval.models.client.types import Request
from gage_eval.models.client.watch import Retry
from gage_eval.observability.sample_events import (
    DataAdapterFailed,
    RequestRetried,
    RowRejected,
    SampleAnswered,
    SampleScored,
    place_of,
)

if TYPE_CHECKING:
    from gage_eval.pipeline.action import StageRun


class SampleWatch:
    """Tells of the answers and retries of one generate step (a `gage_eval.engine.job.Watch`).

    Args:
        run: the computation of the stage.
        backend: the type of the backend.
        model: the model's name as configured.
    """

    def __init__(self, run: "StageRun", backend: str, model: str) -> None:
        self._tell = run.env.observer.emit
        self._stage_id = run.task_id, run.stage
        self._backend = backend
        self._model = model
        self._limit = run.env.sampling.limit(run.stage)
        self._counts_all = run.env.sampling.counts_all

    def answered(self, request: Request, outcome: Outcome) -> None:
        """An ask has its outcome."""
        response = outcome.response
        error = response.error_kind if response.status == "error" else None
        sampled = error is not None or (self._limit > 0 and place_of(request.sample_id) < self._limit)
        if sampled or self._counts_all:
            self._tell(
                SampleAnswered(
                    *self._stage_id,
                    request.sample_id,
                    request.replicate,
                    self._backend,
                    self._model,
                    request.kind,
                    response.status,
                    outcome.source,
                    response.attempts,
                    response.latency_ms,
                    response.ttft_ms,
                    response.prompt_tokens,
                    response.completion_tokens,
                    response.finish_reason,
                    response.error_kind,
                    response.errors[-1] if error is not None and response.errors else None,
                    sampled,
                )
            )

    def retried(self, request: Request, retry: Retry) -> None:
        """A request is sent again."""
        self._tell(RequestRetried(*self._stage_id, request.sample_id, request.replicate, **retry._asdict()))


def tell_scores(run: "StageRun", metric_id: str, scores: pa.Table) -> None:
    """Tell of the score rows (`tables.SCORES`) of the chosen samples, and of all rows that could not be scored."""
    limit = run.env.sampling.limit(run.stage)
    failed = pc.equal(scores["status"], "unscored")
    scores = scores.filter(pc.or_(failed, _chosen(scores["sample_id"], limit)))
    columns = ["sample_id", "replicate", "filter", "status", "reason", "values"]
    for row in scores.select(columns).to_pylist():
        values = dict(row.pop("values") or ())
        run.env.observer.emit(SampleScored(run.task_id, run.stage, metric=metric_id, values=values, **row))


def _chosen(sample_ids: pa.ChunkedArray, limit: int) -> pa.Array:
    """Which samples have events, as `Sampling` says."""
    if limit in (0, 2**32):
        return pa.repeat(limit > 0, len(sample_ids))
    return pa.array([place_of(id_) < limit for id_ in sample_ids.to_pylist()], pa.bool_())


def tell_rejects(
    run: "StageRun", rejects: pa.Table, sample_ids: Mapping[int, str], adapters: Mapping[int, str]
) -> None:
    """Tell of rejected rows (`tables.REJECTS`).

    Args:
        run: the computation of the stage.
        rejects: the rows.
        sample_ids: ids by row index, of rows that became samples.
        adapters: the callable of the config that failed, by row index.
    """
    for row in rejects.select(["row_index", "file", "line", "reason"]).to_pylist():
        index = row["row_index"]
        place = run.task_id, run.stage, sample_ids.get(index)
        if index in adapters:
            run.env.observer.emit(DataAdapterFailed(*place, **row, adapter=adapters[index]))
        else:
            run.env.observer.emit(RowRejected(*place, **row))
