"""Model calls of a stored run: requests rendered again as they were sent, and answers before their commit."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import digest
from gage_eval.base.stages import STAGES, Stage, stages_before
from gage_eval.base.tables import RESPONSE_TELEMETRY, RESPONSES
from gage_eval.engine.episodes import Outcome
from gage_eval.engine.rows import as_telemetry, chunk_tables
from gage_eval.engine.wal import LogIndex, index_logs
from gage_eval.models.client.episode_limits import Price
from gage_eval.models.client.types import Response
from gage_eval.pipeline.asks import Asks, StoredAsks
from gage_eval.pipeline.forecast import (
    action_key,
    asks_a_model,
    asks_of,
    inputs_of,
    rendered,
    settled_task,
    stored_outputs,
)
from gage_eval.pipeline.outputs import SECOND_ASKS
from gage_eval.pipeline.source import RoleSource
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.store import Artifact, Store

_SLICE = 1024


@dataclass(frozen=True)
class ModelCall:
    """One request of a stage and what came back.

    Attributes:
        stage: support, infer or judge.
        adapter_id: the role adapter.
        replicate: which repetition.
        request: the request body.
        as_sent: whether exactly this body was answered; None where nothing was sent, or not yet.
        response: the answer as a row of `tables.RESPONSES` without nulls; None before the answer.
        telemetry: latency, attempts and errors as a row of `tables.RESPONSE_TELEMETRY` without nulls.
    """

    stage: Stage
    adapter_id: str
    replicate: int
    request: Mapping[str, Any]
    as_sent: bool | None
    response: dict[str, Any] | None
    telemetry: dict[str, Any] | None

    @property
    def form(self) -> str:
        """What the request's body is, in words."""
        if self.response is not None and self.response.get("status") == "skipped":
            return "not sent"
        return {True: "as sent", False: "as it would be sent now", None: "as prepared"}[self.as_sent]


class TaskCalls:
    """The stages of one task that ask a model.

    Args:
        store: where the artifacts are.
        task: the task's plan.
        outputs: artifact ids by stage and output, of finished stages; always including standardize and preprocess.
        run_id: the run; needed with `refreshed` only.
        refreshed: stages that the run computes again although they are stored.
    """

    def __init__(
        self,
        store: Store,
        task: TaskPlan,
        outputs: Mapping[str, Mapping[str, str]],
        *,
        run_id: str = "",
        refreshed: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._task = task
        self._run_id = run_id
        self._refreshed = refreshed
        self._outputs: dict[str, Mapping[str, str]] = dict(outputs)

    def of_sample(self, part: int, sample_id: str, row_index: int) -> list[ModelCall]:
        """Every call for a sample, in the order of the stages, then by replicate.

        Args:
            part: the part that holds the sample.
            sample_id: the sample.
            row_index: its row.
        """
        return [
            call
            for stage in STAGES
            for asks, source in self.asks(stage)
            for call in self._calls(stage, asks, source, part, sample_id, row_index)
        ]

    def bodies(self, stage: Stage, part: int, samples: Mapping[int, str]) -> dict[tuple[str, int], dict[str, Any]]:
        """A stage's request bodies about some samples of a part, by sample id and replicate.

        Args:
            stage: the stage.
            part: the part. Only the rows that are needed are read, and once.
            samples: ids of the samples by row index.
        """
        bodies = {}
        for asks, source in self.asks(stage):
            opened = source.open(part, list(samples))
            for sample_id in samples.values():
                for rendered_request in rendered(asks.spec, opened.of_sample(sample_id)):
                    bodies[sample_id, rendered_request.request.replicate] = rendered_request.body
        return bodies

    def asks(self, stage: Stage) -> Iterator[tuple[Asks, RoleSource]]:
        """A stage's asks of each model; none while the answers that its requests show are missing."""
        inputs = self._inputs(stage)
        if inputs is not None:
            second = [self._second_asks(inputs)] if stage == "judge" else []
            for asks in (*asks_of(self._store, stage, self._task, inputs), *filter(None, second)):
                yield asks, RoleSource.of(asks, self._store, inputs)

    def _second_asks(self, inputs: Mapping[str, str]) -> Asks | None:
        """What the second judge was asked; None where it was not."""
        judge, id_ = self._task.judge, self._of("judge").get(SECOND_ASKS)
        if id_ is None or judge.second is None:
            return None
        return judge.asks_second(StoredAsks(self._store.artifact(id_), judge.second_asks(self._store, inputs)))

    def responses(self, stage: Stage, asks: Asks, source: RoleSource) -> "Artifact | PendingResponses":
        """The responses to some asks: all of them once committed, otherwise those that exist so far."""
        ids = self._of(stage)
        if asks.output in ids:
            return self._store.artifact(ids[asks.output])
        return PendingResponses(self._store, asks, source, asks.work_key(self._work_key(stage)))

    def _inputs(self, stage: Stage) -> dict[str, str] | None:
        """Artifact ids of a stage's inputs; None if it asks no model, or waits for answers of another stage or for
        a judge to say how it gives verdicts."""
        if not asks_a_model(stage, self._task):
            return None
        for earlier in stages_before(stage):
            if asks_a_model(earlier, self._task):
                self._of(earlier)
        inputs = inputs_of(stage, self._task, {name: ids for name, ids in self._outputs.items() if ids})
        if stage == "judge" and inputs is not None:
            self._task, unsettled = settled_task(self._store, self._task, inputs)
            return None if unsettled else inputs
        return inputs

    def _of(self, stage: Stage) -> Mapping[str, str]:
        """Outputs of a stage. Too many errors stop a stage after its outputs are stored, without a result in
        run.json."""
        if stage not in self._outputs:
            inputs = self._inputs(stage)
            self._outputs[stage] = {}
            # While a stage is computed again, the store still holds its earlier result.
            if inputs is not None and not self._is_refreshing(stage):
                self._outputs[stage] = stored_outputs(self._store, stage, self._task, inputs, incomplete=True) or {}
        return self._outputs[stage]

    def _is_refreshing(self, stage: Stage) -> bool:
        return stage in self._refreshed and self._work_key(stage) in {wip.key for wip in self._store.wips()}

    def _work_key(self, stage: Stage) -> str:
        """Key of a stage's work in progress (`StageRun.work_key`)."""
        inputs = self._inputs(stage)
        assert inputs is not None
        key = action_key(self._store, stage, self._task, inputs)
        return digest([key, self._run_id]) if stage in self._refreshed else key

    def _calls(
        self, stage: Stage, asks: Asks, source: RoleSource, part: int, sample_id: str, row_index: int
    ) -> Iterator[ModelCall]:
        responses = self.responses(stage, asks, source)
        if isinstance(responses, PendingResponses):
            tables = responses.read(part), responses.telemetry(part)
        else:
            telemetry = self._store.artifact(self._of(stage)[asks.telemetry])
            tables = responses.read(part, rows=[row_index]), telemetry.read(part, rows=[row_index])
        answers = list(zip(*(_about(sample_id, table) for table in tables), strict=True))
        requests = rendered(asks.spec, source.open(part, [row_index]).of_sample(sample_id))
        if len(answers) == len(requests):
            # Responses have the order of the asks.
            of_request = dict(enumerate(answers))
        else:
            by_key = {answer["response_key"]: (answer, timing) for answer, timing in answers}
            of_request = {at: by_key[request.key] for at, request in enumerate(requests) if request.key in by_key}
        for at, request in enumerate(requests):
            response, timing = of_request.get(at, (None, None))
            yield ModelCall(
                stage,
                asks.spec.adapter_id,
                request.request.replicate,
                request.body,
                # The response key contains the body: equal keys mean equal bodies.
                None if response is None else response["response_key"] == request.key,
                response,
                timing,
            )


class PendingResponses:
    """Responses of an uncommitted generate stage: from finished chunks and the write-ahead logs.

    Only logs on this machine are read. An episode of several calls appears when its chunk is finished.
    """

    def __init__(self, store: Store, asks: Asks, source: RoleSource, work_key: str) -> None:
        self._wip = store.wip(work_key)
        self._asks = asks
        self._source = source

    def read(self, part: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The responses of a part so far, in row order (`tables.RESPONSES`)."""
        table = self._table(part, "responses", RESPONSES.arrow)
        return table if columns is None else table.select(list(columns))

    def telemetry(self, part: int) -> pa.Table:
        """The telemetry of those responses (`tables.RESPONSE_TELEMETRY`)."""
        return self._table(part, "response_telemetry", RESPONSE_TELEMETRY.arrow)

    def _table(self, part: int, name: str, schema: pa.Schema) -> pa.Table:
        """The rows of the answered asks, in their order."""
        tables, stop = [schema.empty_table()], 0
        count = dict(self._source.parts)[part]
        # Chunks that were cut for other workers overlap.
        for chunk in sorted(self._wip.chunks(part), key=lambda chunk: (chunk.start, -chunk.stop)):
            # A running run may commit its answers at any moment, and then remove chunks and logs.
            with suppress(FileNotFoundError):
                table = chunk.tables()[name]
                table = as_telemetry(table) if name == "response_telemetry" else table
                tables += self._logged(part, stop, chunk.start, name)
                tables.append(table.slice(max(stop - chunk.start, 0)))
                stop = max(stop, chunk.stop)
        with suppress(FileNotFoundError):
            tables += self._logged(part, stop, count, name)
        return pa.concat_tables(tables)

    def _logged(self, part: int, start: int, stop: int, name: str) -> Iterator[pa.Table]:
        """The rows of logged answers to the asks ``start`` to ``stop`` (exclusive)."""
        if start >= stop or not len(self._log):
            return
        requests = self._source.open(part)
        for first in range(start, stop, _SLICE):
            window = rendered(self._asks.spec, requests.render(first, min(first + _SLICE, stop)))
            known = [request for request in window if request.key in self._log]
            outcomes = [Outcome(Response.from_bytes(self._log[request.key]), source="log") for request in known]
            keys = [request.key for request in known]
            yield chunk_tables([request.request for request in known], keys, outcomes, Price())[name]

    @cached_property
    def _log(self) -> LogIndex:
        return index_logs(self._wip.logs)


def _about(sample_id: str, table: pa.Table) -> list[dict[str, Any]]:
    """A sample's rows without nulls, in order."""
    rows = table.filter(pc.equal(table["sample_id"], sample_id)).to_pylist()
    return [
        {
            name: value
            for name, value in row.items()
            if name not in ("row_index", "sample_id", "replicate") and value is not None
        }
        for row in rows
    ]
