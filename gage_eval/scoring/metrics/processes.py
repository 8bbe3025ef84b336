"""Processes that score rows for a run. A metric that crashes ends only one of them.

A process gets the store's URL, the ids of the inputs and what binds each metric. It returns tables. It imports little,
so that it soon begins to score.
"""

import os
import pickle
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from gage_eval.extend.loading import follow_rules, loading_rules
from gage_eval.extend.tuning import tune_process
from gage_eval.scoring.metrics.bind import BoundMetric, bind
from gage_eval.scoring.metrics.score_rows import Inputs, RowReader, Rows, score_rows
from gage_eval.store import Store

# Of how many tasks at once a process keeps the metrics.
_TASKS_KEPT = 4


class ScoredRows(NamedTuple):
    """The scores of some rows.

    Attributes:
        tables: the score rows of each metric.
        warned: the warnings of each metric so far, by what they are about.
    """

    tables: list[pa.Table]
    warned: list[dict[str, str]]


Recipe: TypeAlias = bytes
"""The inputs and metrics of a task, as a process binds them."""


def recipe_of(inputs: Inputs, metrics: Sequence[BoundMetric]) -> Recipe:
    """What `ScoringProcesses.submit` needs to know about a task."""
    return pickle.dumps((inputs, [dict(metric.recipe) for metric in metrics]))


class ScoringProcesses:
    """Processes that score for all tasks of a run. They start when rows come, and may be used from any thread.

    They are started by spawn, because a fork of a process with threads may hang.

    Args:
        url: of the store.
        count: how many.
    """

    def __init__(self, url: str, count: int) -> None:
        self.count = count
        self._url = url
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._context = _Context()
        self._closed = False

    def submit(self, recipe: Recipe, rows: Rows) -> "Future[ScoredRows]":
        """Score rows. After a process was killed, others are started for what is submitted then.

        The future raises what a metric raised, and ``BrokenProcessPool`` where a process was killed.

        Raises:
            BrokenProcessPool: it is closed.
            OSError: no process can be started.
        """
        with self._lock:
            if self._closed:
                raise BrokenProcessPool("no process scores any more")
            if self._pool is not None:
                try:
                    return self._pool.submit(_work, recipe, rows)
                except BrokenProcessPool:
                    self._pool.shutdown(wait=False)
            self._pool = ProcessPoolExecutor(self.count, self._context, _start, (self._url, loading_rules()))
            return self._pool.submit(_work, recipe, rows)

    def close(self) -> None:
        """End the processes at once: they hold nothing to keep, and a metric may block one of them forever."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            # The pool drops what waits by itself. What is cancelled from outside would be an error in its thread.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in self._context.started:
                process.kill()
                process.join()


class _Context(SpawnContext):
    """Knows the processes that it started."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        process = SpawnProcess(*args, **options)
        self.started.append(process)
        return process


_store: list[Store] = []


def _start(url: str, rules: tuple[frozenset[str] | None, list[str]]) -> None:
    """Prepare this process for scoring. It ends with the process that started it."""
    # Ctrl-C is sent to all processes of a terminal. The process that started this one handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tune_process()
    follow_rules(*rules)
    _store.append(Store.open(url, read_only=True))


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@lru_cache(_TASKS_KEPT)
def _bound(recipe: Recipe) -> tuple[RowReader, list[BoundMetric]]:
    inputs, metrics = pickle.loads(recipe)  # noqa: S301 - from the process of the run
    return RowReader(_store[0], inputs), [bind(**metric) for metric in metrics]


def _work(recipe: Recipe, rows: Rows) -> ScoredRows:
    reader, metrics = _bound(recipe)
    scores = score_rows(metrics, reader, rows)
    return ScoredRows(scores, [dict(metric.warned) for metric in metrics])
