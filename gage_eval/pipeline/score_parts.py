"""Score the parts of a task in other processes."""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

import pyarrow as pa

from gage_eval.base.errors import RunFailed
from gage_eval.pipeline.action import StageRun
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.processes import ScoringProcesses, recipe_of
from gage_eval.scoring.metrics.score_rows import FEWEST_ROWS, MOST_ROWS, Inputs, Rows, joins_replicates
from gage_eval.store import PartInfo

# Pieces that are submitted at once per process: they keep it busy while this process writes a part.
_SUBMITTED = 8
# Fewer would let one process work alone at the end.
_PIECES_PER_PROCESS = 8
# How often a wait looks whether the run is cancelled.
_LOOK_EVERY_S = 0.5


def scored_in_processes(
    run: StageRun, processes: ScoringProcesses, inputs: Inputs, metrics: Sequence[BoundMetric]
) -> Iterator[list[pa.Table]]:
    """The score rows of every metric, part by part in the order of the responses.

    Args:
        run: has the inputs.
        processes: score.
        inputs: of the metrics.
        metrics: are scored together.

    Raises:
        InputError: raised by a metric.
        RunFailed: a process was killed.
    """
    try:
        yield from _scored(run, processes, inputs, metrics)
    except BrokenProcessPool as error:
        raise RunFailed(
            "auto_eval: a scoring process was killed or could not start, perhaps because memory ran out, or a metric "
            "ended it. The answers are kept; run again with fewer processes (GAGE_EVAL_AUTOEVAL_WORKERS)."
        ) from error


def _scored(
    run: StageRun, processes: ScoringProcesses, inputs: Inputs, metrics: Sequence[BoundMetric]
) -> Iterator[list[pa.Table]]:
    parts, recipe = run.input("responses").parts, recipe_of(inputs, metrics)
    pieces = _pieces(parts, _piece_size(sum(part.rows for part in parts), processes.count, metrics))
    submitted = ((processes.submit(recipe, rows), rows.stop == part.rows) for part, rows in pieces)
    waiting = deque(islice(submitted, processes.count * _SUBMITTED))
    tables: list[list[pa.Table]] = []
    while waiting:
        future, ends_part = waiting.popleft()
        while not wait([future], _LOOK_EVERY_S).done:
            run.env.check()
        scored = future.result()
        waiting.extend(islice(submitted, 1))
        # Each warning is shown once.
        for metric, warnings in zip(metrics, scored.warned, strict=True):
            for about, text in warnings.items():
                metric.warn(about, text)
        tables.append(scored.tables)
        if ends_part:
            yield [pa.concat_tables(of_metric) for of_metric in zip(*tables, strict=True)]
            tables = []


def _pieces(parts: Sequence[PartInfo], size: int) -> Iterator[tuple[PartInfo, Rows]]:
    """Every part in pieces of at most ``size`` rows; one without rows for a part that has none."""
    for part in parts:
        for start in range(0, max(part.rows, 1), size):
            yield part, Rows(part.index, start, min(start + size, part.rows))


def _piece_size(rows: int, processes: int, metrics: Sequence[BoundMetric]) -> int:
    """How many of all rows a process takes at once; all if a metric joins the replicates of a sample."""
    if joins_replicates(metrics):
        return max(1, rows)
    return max(FEWEST_ROWS, min(MOST_ROWS, math.ceil(rows / (_PIECES_PER_PROCESS * processes))))
