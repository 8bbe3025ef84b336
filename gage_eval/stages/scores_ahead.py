"""Score the finished rows of a task in other processes while its other rows are asked.

The scores wait in memory. The stage auto_eval takes those whose responses are the ones that were committed, and scores
everything else. So no result depends on what is scored ahead, and errors are raised by the stage alone.
"""

import math
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

from gage_eval.metrics import BoundMetric
from gage_eval.metrics.processes import Scored, ScoringProcesses, recipe_of
from gage_eval.metrics.score_rows import FEWEST_ROWS, ChunkOf, Inputs, Rows, joins_replicates
from gage_eval.planning.specs import ScoreSpec

# The inputs that are there.
_READ = {"samples", "responses"}
# More rows at once would let one process work alone at the end.
_MOST_TAKEN = 512
_TIMES_TAKEN = 8
# Pieces per process that are scored or wait for it.
_QUEUED = 2
# Rows whose scores may wait in memory, about 100 MB of them.
_MOST_ROWS = 500_000


class Ahead(NamedTuple):
    """Rows that are scored ahead, or are being scored."""

    rows: Rows
    scored: "Future[Scored]"


class ScoresAhead:
    """Scores a task's finished chunks, all metrics together.

    Args:
        processes: score.
        spec: of the task's auto_eval.
        samples: id of their artifact.
    """

    def __init__(self, processes: ScoringProcesses, spec: ScoreSpec, samples: str) -> None:
        self._processes = processes
        self._metrics = spec.metrics
        self._samples = samples
        self._recipe = recipe_of(Inputs.of(spec.metrics, {"samples": samples}, spec.nameable), spec.metrics)
        self._open = not (joins_replicates(spec.metrics) or any(one.inputs - _READ for one in spec.metrics))
        self._left = _MOST_ROWS
        self._lock = threading.Lock()
        self._waiting: deque[Rows] = deque()
        self._begun: list[Ahead] = []
        self._is_feeding = False
        # Used by the thread that feeds.
        self._running: set[Future[Scored]] = set()

    def finished(self, key: str, part: int, start: int, stop: int) -> None:
        """Score a chunk that is in the store. May be called from any thread.

        Args:
            key: of the work in progress.
            part: index of the part.
            start: the chunk's first position in it.
            stop: the position after its last one.
        """
        size = taken_at_once(stop - start, self._processes.count)
        with self._lock:
            if not self._open or not start < stop <= start + self._left:
                return
            self._left -= stop - start
            self._waiting += cut(part, start, stop, size, ChunkOf(key, start, stop))
            if not self._is_feeding:
                self._is_feeding = True
                threading.Thread(target=self._feed, name="gage-eval-scores-ahead", daemon=True).start()

    def end(self, samples: str, metrics: Sequence[BoundMetric]) -> list[Ahead]:
        """Begin no more. Returns what is scored or being scored, in order; nothing where it is not what is asked for.

        Args:
            samples: id of the artifact that the stage reads.
            metrics: those that have no scores yet.
        """
        with self._lock:
            self._open = False
        if samples != self._samples or tuple(metrics) != self._metrics:
            return []
        return sorted(self._begun, key=lambda one: (one.rows.part, one.rows.start))

    def _feed(self) -> None:
        """Keep the processes busy until nothing waits, with little in their queue: at the end the chunks are gone."""
        while True:
            is_full = len(self._running) >= self._processes.count * _QUEUED
            done, self._running = wait(self._running, None if is_full else 0, FIRST_COMPLETED)
            with self._lock:
                # After a process was killed, the next ones would be killed too, or not start.
                broken = any(isinstance(one.exception(), BrokenProcessPool) for one in done)
                self._open = self._open and not broken
                if not self._open or not self._waiting:
                    self._is_feeding = False
                    return
                rows = self._waiting.popleft()
                try:
                    scored = self._processes.submit(self._recipe, rows)
                except (OSError, BrokenProcessPool):
                    # No process can be started: the stage tries once more, and says so. Or the run ends.
                    self._open = self._is_feeding = False
                    return
                self._begun.append(Ahead(rows, scored))
            self._running.add(scored)


def cut(part: int, start: int, stop: int, size: int, chunk: ChunkOf | None = None) -> Iterator[Rows]:
    """Pieces of at most ``size`` rows; one without rows where there are none."""
    for first in range(start, max(stop, start + 1), size):
        yield Rows(part, first, min(first + size, stop), chunk)


def taken_at_once(rows: int, processes: int, metrics: Sequence[BoundMetric] = ()) -> int:
    """How many of some rows a process takes at once; all if a metric joins the replicates of a sample."""
    if joins_replicates(metrics):
        return max(1, rows)
    return max(FEWEST_ROWS, min(_MOST_TAKEN, math.ceil(rows / (_TIMES_TAKEN * processes))))
