"""Score the parts, in this process or in others.

A scoring process gets only the store's URL, artifact ids and the arguments that bind each metric. It returns tables.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from gage_eval.errors import RunFailed
from gage_eval.foreign import follow_rules, loading_rules
from gage_eval.metrics import BoundMetric, bind
from gage_eval.metrics.overrides import COLUMN, score_samples
from gage_eval.stages.base import StageRun
from gage_eval.store import PartInfo, Store

Scored: TypeAlias = tuple[PartInfo, list[pa.Table]]

# Parts that are submitted ahead per process: enough to keep it busy, few enough for their tables to fit in memory.
_AHEAD = 2


@dataclass(frozen=True)
class Inputs:
    """The inputs of metrics.

    Attributes:
        artifacts: artifact ids by input, without inputs that no metric reads.
        columns: the needed columns of the samples.
        known: the metrics that samples may name in their ``eval_config``.
    """

    artifacts: Mapping[str, str]
    columns: tuple[str, ...]
    known: frozenset[str] = frozenset()

    @classmethod
    def of(cls, run: StageRun, metrics: Sequence[BoundMetric], known: Collection[str]) -> "Inputs":
        """The inputs of these metrics in a run."""
        read = {"samples"}.union(*(metric.inputs for metric in metrics))
        artifacts = {name: run.input_id(name) for name in sorted(read)}
        columns = {"row_index", "id", COLUMN}.union(*(metric.sample_columns for metric in metrics))
        return cls(artifacts, tuple(sorted(columns)), frozenset(known))


def score_part(store: Store, inputs: Inputs, metrics: Sequence[BoundMetric], index: int) -> list[pa.Table]:
    """The score rows of one part, one table per metric."""
    tables = {
        name: store.artifact(id_).read(index, columns=list(inputs.columns) if name == "samples" else None)
        for name, id_ in inputs.artifacts.items()
    }
    return [score_samples(metric, tables, known=inputs.known) for metric in metrics]


def in_processes(
    store: Store, inputs: Inputs, metrics: Sequence[BoundMetric], parts: Sequence[PartInfo], workers: int
) -> Iterator[Scored]:
    """The parts with their tables, in order, scored by ``workers`` processes.

    They are started by spawn, because a fork of a process with threads may hang. Each warning is shown once.

    Raises:
        InputError: raised by a metric.
        RunFailed: a process was killed.
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    recipes = [dict(metric.recipe) for metric in metrics]
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start, (store.url, inputs, recipes, loading_rules()))
    try:
        waiting: deque[tuple[PartInfo, Future[_Result]]] = deque()
        for part in parts:
            waiting.append((part, pool.submit(_work, part.index)))
            if len(waiting) >= workers * _AHEAD:
                yield _taken(*waiting.popleft(), metrics)
        while waiting:
            yield _taken(*waiting.popleft(), metrics)
    except BrokenProcessPool as error:
        raise RunFailed(
            "auto_eval: a scoring process was killed, perhaps because memory ran out, or a metric ended it. The "
            "answers are kept; run again with fewer processes (GAGE_EVAL_AUTOEVAL_WORKERS)."
        ) from error
    except KeyboardInterrupt:
        # The processes hold nothing to keep, and a metric may block its process forever.
        for process in get_context("spawn").active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_Result: TypeAlias = tuple[list[pa.Table], list[dict[str, str]]]
_scorer: list[Callable[[int], _Result]] = []


def _start(
    url: str, inputs: Inputs, recipes: Sequence[Mapping[str, Any]], rules: tuple[frozenset[str] | None, list[str]]
) -> None:
    """Prepare this process for scoring. It ends with the process that started it."""
    # Ctrl-C is sent to all processes of a terminal. The process that started this one handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    follow_rules(*rules)
    store = Store.open(url, read_only=True)
    metrics = [bind(**recipe) for recipe in recipes]
    _scorer.append(
        lambda index: (score_part(store, inputs, metrics, index), [dict(metric.warned) for metric in metrics])
    )


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(index: int) -> _Result:
    return _scorer[0](index)


def _taken(part: PartInfo, result: "Future[_Result]", metrics: Sequence[BoundMetric]) -> Scored:
    tables, warned = result.result()
    for metric, warnings in zip(metrics, warned, strict=True):
        for about, text in warnings.items():
            metric.warn(about, text)
    return part, tables
