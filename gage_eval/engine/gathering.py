"""Gathering: put together a step that shards have answered. No engine is opened, and nothing is waited for."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.engine.assembly import count_statuses, put_together
from gage_eval.engine.job import Tally
from gage_eval.store import ArtifactWriter
from gage_eval.store.wip import Wip


@dataclass
class Gather:
    """Assembles the parts of a step from its chunks in the store, in the order of the asks.

    Attributes:
        parts: (part index, number of asks) in order.
        wip: the chunks.
        attempt: the session's attempt: rows that ended in an error in it are part of the result.
        responses, telemetry: writers of the outputs.
        answered: called with the responses and telemetry of each part.
        statuses: responses written, by status.
        tally: what the shards did, as the rows tell.
    """

    parts: Sequence[tuple[int, int]]
    wip: Wip
    attempt: str
    responses: ArtifactWriter
    telemetry: ArtifactWriter
    answered: Callable[[pa.Table, pa.Table], None]
    statuses: Counter[str] = field(default_factory=Counter)
    tally: Tally = field(default_factory=lambda: Tally(total=0))

    def run(self) -> None:
        """Write every part.

        Raises:
            WorkGone: a chunk is missing.
            FileNotFoundError: another run removed the chunks, because it has committed the action.
        """
        self.tally.total = sum(asks for _, asks in self.parts)
        for part, asks in self.parts:
            chunks = self.wip.chunks(part, attempt=self.attempt)
            pieces = [(chunk.start, chunk.stop, chunk.tables()) for chunk in chunks]
            responses, telemetry = put_together(pieces, asks)
            self._count(responses, telemetry)
            self.answered(responses, telemetry)
            self.responses.write(part, responses)
            self.telemetry.write(part, telemetry)

    def _count(self, responses: pa.Table, telemetry: pa.Table) -> None:
        tally = self.tally
        statuses = count_statuses(responses)
        self.statuses.update(statuses)
        tally.done += responses.num_rows
        tally.errors += statuses.get("error", 0)
        sent = telemetry.filter(pc.equal(telemetry["source"], "sent"))
        attempts = pc.sum(sent["attempts"]).as_py() or 0
        tally.sent += attempts
        tally.retried += max(0, attempts - sent.num_rows)
        tally.reused += telemetry.num_rows - sent.num_rows
