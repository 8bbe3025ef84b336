"""Ask a judge again whose answer holds no verdict, each time as a new draw (``verdict_retries``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from gage_eval.base.statuses import NO_VERDICT
from gage_eval.base.tables import ASKS
from gage_eval.pipeline.action import StageRun
from gage_eval.pipeline.asks import Asks
from gage_eval.pipeline.generate_spec import Binding
from gage_eval.pipeline.generation import generate
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.pipeline.judgments import OF_ASK, judgment
from gage_eval.pipeline.outputs import of_retry
from gage_eval.store import Artifact

# What an ask has in common with its retries.
_Place: TypeAlias = tuple[Any, ...]
_PLACE = ("row_index", "replicate", "slot", "binding")


@dataclass
class Retries:
    """The judgments that replace those without a verdict.

    Attributes:
        latest: judgment by the place of its ask.
        complete: no retry ended in an error.
        responses: of each time that the judge was asked again.
    """

    latest: dict[_Place, Mapping[str, Any]] = field(default_factory=dict)
    complete: bool = True
    responses: list[Artifact] = field(default_factory=list)

    def replace_in(self, rows: list[dict[str, Any]]) -> None:
        """Replace judgments that have a later draw."""
        for row in rows:
            later = self.latest.get(tuple(row[name] for name in _PLACE))
            # An ordinary run's judgments name no judge, with and without a retry.
            row.update({} if later is None else {**later, "judge": row["judge"]})


class _RetryAsks:
    """Explicit asks of a few answers: an `AskTable`."""

    def __init__(self, rows: Mapping[int, Sequence[Mapping[str, Any]]], bindings: Mapping[str, Binding]) -> None:
        self._rows = rows
        self._bindings = bindings

    @property
    def parts(self) -> Sequence[int]:
        return list(self._rows)

    def read(self, part: int) -> pa.Table:
        return pa.Table.from_pylist(list(self._rows[part]), schema=ASKS.arrow)

    def bindings(self, part: int) -> Mapping[str, Binding]:
        return self._bindings


def ask_again(run: StageRun, spec: JudgeSpec, asks: Asks, responses: Artifact) -> Retries:
    """Ask for the missing verdicts of one judge, as often as its adapter allows.

    Args:
        run: gets two more outputs for each retry.
        spec: the judges and their parsers.
        asks: what the judge was asked.
        responses: its answers.
    """
    retries, parser = Retries(), spec.parser_of(asks.spec)
    bindings: dict[str, Binding] = {} if asks.binding is None else {asks.binding.digest: asks.binding}
    waiting: dict[int, list[dict[str, Any]]] = {}
    for part in responses.parts if spec.retries_of(asks.spec) else ():
        rows = asks.rows(part.index, responses)
        if asks.table is not None:
            bindings |= asks.table.bindings(part.index)
        judged = (
            judgment(row, parser, ask) for row, ask in zip(responses.read(part.index).to_pylist(), rows, strict=True)
        )
        waiting[part.index] = [
            {**dict.fromkeys(ASKS.arrow.names), **{name: row[name] for name in ("row_index", "replicate", *OF_ASK)}}
            for row in judged
            if row["reason"] in NO_VERDICT
        ]
    for time in range(1, spec.retries_of(asks.spec) + 1):
        if not any(waiting.values()):
            break
        # Behind the draws that the judge is asked for in any case.
        waiting = {part: [{**ask, "draw": ask["draw"] + spec.draws} for ask in rows] for part, rows in waiting.items()}
        again = generate(run, Asks(asks.spec, of_retry(asks.output, time), table=_RetryAsks(waiting, bindings)))
        retries.responses.append(again)
        retries.complete = retries.complete and again.complete
        for part_index, rows in waiting.items():
            still = []
            for row, ask in zip(again.read(part_index).to_pylist(), rows, strict=True):
                later = judgment(row, parser, ask, by=asks.spec.adapter_id)
                retries.latest[tuple(ask[name] for name in _PLACE)] = later
                if later["reason"] in NO_VERDICT:
                    still.append(ask)
            waiting[part_index] = still
    return retries
