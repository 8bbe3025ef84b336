"""Score the parts of a task in other processes."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import pyarrow as pa

from gage_eval.errors import RunFailed
from gage_eval.metrics import BoundMetric
from gage_eval.metrics.processes import Scored, ScoringProcesses, recipe_of
from gage_eval.metrics.score_rows import Inputs, Rows
from gage_eval.stages.base import StageRun
from gage_eval.stages.scores_ahead import Ahead, ScoresAhead, cut, taken_at_once
from gage_eval.store import PartInfo, content_hash

# Pieces that are submitted ahead per process: they keep it busy while this process writes a part.
_SUBMITTED = 8
# How often a wait looks whether the run is cancelled.
_LOOK_EVERY_S = 0.5


def scored_in_processes(
    run: StageRun,
    processes: ScoringProcesses,
    inputs: Inputs,
    metrics: Sequence[BoundMetric],
    ahead: ScoresAhead | None = None,
) -> Iterator[list[pa.Table]]:
    """The score rows of every metric, part by part in the order of the responses.

    Args:
        run: has the inputs.
        processes: score.
        inputs: of the metrics.
        metrics: are scored together.
        ahead: what was scored while rows were asked.

    Raises:
        InputError: raised by a metric.
        RunFailed: a process was killed.
    """
    found = [] if ahead is None else ahead.end(run.input_id("samples"), metrics)
    try:
        yield from _Pieces(run, metrics, inputs, processes, found).scored()
    except BrokenProcessPool as error:
        raise RunFailed(
            "auto_eval: a scoring process was killed or could not start, perhaps because memory ran out, or a metric "
            "ended it. The answers are kept; run again with fewer processes (GAGE_EVAL_AUTOEVAL_WORKERS)."
        ) from error


@dataclass(eq=False)
class _Piece:
    """Rows that a process scores, or has scored ahead."""

    part: PartInfo
    rows: Rows
    scored: "Future[Scored] | None" = None


class _Pieces:
    """Scores the responses piece by piece. Takes what was scored ahead, where the responses are the same."""

    def __init__(
        self,
        run: StageRun,
        metrics: Sequence[BoundMetric],
        inputs: Inputs,
        processes: ScoringProcesses,
        ahead: Sequence[Ahead],
    ) -> None:
        self._check = run.env.check
        self._metrics = metrics
        self._processes = processes
        self._recipe = recipe_of(inputs, metrics)
        self._ahead = ahead
        self._parts = run.input("responses").parts
        self._responses = lru_cache(1)(run.input("responses").read)

    def scored(self) -> Iterator[list[pa.Table]]:
        """The tables of each part."""
        pieces, waiting = self._pieces(), deque[_Piece]()
        tables: list[list[pa.Table]] = []
        while True:
            for piece in islice(pieces, self._processes.count * _SUBMITTED - len(waiting)):
                if piece.scored is None:
                    piece.scored = self._processes.submit(self._recipe, piece.rows)
                waiting.append(piece)
            if not waiting:
                return
            piece = waiting.popleft()
            tables.append(self._tables(piece))
            if piece.rows.stop == piece.part.rows:
                yield [pa.concat_tables(pieces) for pieces in zip(*tables, strict=True)]
                tables = []

    def _pieces(self) -> Iterator[_Piece]:
        """What is scored ahead and everything between, in order."""
        size = taken_at_once(sum(part.rows for part in self._parts), self._processes.count, self._metrics)
        for part in self._parts:
            stop = 0
            for one in self._ahead:
                if one.rows.part == part.index and stop <= one.rows.start and one.rows.stop <= part.rows:
                    if stop < one.rows.start:
                        yield from (_Piece(part, rows) for rows in cut(part.index, stop, one.rows.start, size))
                    yield _Piece(part, one.rows, one.scored)
                    stop = one.rows.stop
            if stop < part.rows or not part.rows:
                yield from (_Piece(part, rows) for rows in cut(part.index, stop, part.rows, size))

    def _tables(self, piece: _Piece) -> list[pa.Table]:
        """The score rows of a piece, one table per metric."""
        assert piece.scored is not None
        self._wait_for(piece.scored)
        if piece.rows.chunk is not None:
            scored = self._same(piece)
            if scored is not None:
                return self._taken(scored)
            piece.scored = self._processes.submit(self._recipe, replace(piece.rows, chunk=None))
            self._wait_for(piece.scored)
        return self._taken(piece.scored.result())

    def _wait_for(self, scored: "Future[Scored]") -> None:
        while not wait([scored], _LOOK_EVERY_S).done:
            self._check()

    def _same(self, piece: _Piece) -> Scored | None:
        """What was scored ahead; None if that failed, or if these are not the responses that were committed."""
        assert piece.scored is not None
        if piece.scored.exception() is not None:
            return None
        scored, rows = piece.scored.result(), piece.rows
        responses = self._responses(rows.part).slice(rows.start, rows.stop - rows.start)
        return scored if content_hash(responses) == scored.source else None

    def _taken(self, scored: Scored) -> list[pa.Table]:
        """The tables; each warning is shown once."""
        for metric, warnings in zip(self._metrics, scored.warned, strict=True):
            for about, text in warnings.items():
                metric.warn(about, text)
        return scored.tables
