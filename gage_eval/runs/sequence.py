"""Several runs, one after the other or side by side. An engine that more than one of them needs is started once."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context

from gage_eval.base.errors import GageError, RunCancelled
from gage_eval.engine.host import SharedEngines
from gage_eval.models.backends.base import Blocks
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned
from gage_eval.runs.results.reading import RunReader

_log = logging.getLogger(__name__)


def run_all(
    runs: Sequence[RunOptions],
    run: Callable[[RunOptions, SharedEngines], RunReader],
    *,
    at_once: int = 1,
    blocks: Blocks | None = None,
    ended: Callable[[int, RunReader | GageError], None] = lambda number, result: None,
) -> list[RunReader | GageError]:
    """Carry out several runs. If one fails or is cancelled, the others still run.

    Runs that need the same engines follow each other, or run side by side. Runs that need different engines never do,
    and the engines that a run does not need stop before it, so that at most the engines of one run are in memory.

    Args:
        runs: the options of each run.
        run: carries out a run with the engines of a host. Where several run at once, in threads.
        at_once: how many may run side by side.
        blocks: the blocks of the Prefect API, if there is one.
        ended: called after each run with its position and its result, always in this thread.

    Returns:
        For each of ``runs`` its result, or why there is none.
    """
    needs = [engine_keys(options, blocks) for options in runs]
    waiting = sorted(range(len(runs)), key=lambda number: needs.index(needs[number]))
    results: dict[int, RunReader | GageError] = {}

    def carry_out(number: int) -> RunReader | GageError:
        try:
            return run(runs[number], host)
        except GageError as error:
            return error
        except RunCancelled as error:
            # Its own flow run was cancelled. Ctrl-C is another exception, which ends them all.
            return GageError(f"{error}.")

    def end(number: int, result: RunReader | GageError) -> None:
        results[number] = result
        ended(number, result)

    with SharedEngines() as host:
        if at_once == 1:
            for number in waiting:
                host.keep(needs[number])
                end(number, carry_out(number))
        else:
            _side_by_side(waiting, needs, carry_out, end, host, at_once)
    return [results[number] for number in range(len(runs))]


def _side_by_side(
    waiting: list[int],
    needs: Sequence[frozenset[str]],
    carry_out: Callable[[int], RunReader | GageError],
    end: Callable[[int, RunReader | GageError], None],
    host: SharedEngines,
    at_once: int,
) -> None:
    """Carry out the waiting runs, by their numbers, in threads. An exception in this thread ends all of them."""
    running: dict[Future[RunReader | GageError], int] = {}

    def begin() -> None:
        """Begin the runs that may begin now."""
        for number in list(waiting):
            in_use = {needs[other] for other in running.values()} - {frozenset()}
            if len(running) < at_once and (not needs[number] or in_use <= {needs[number]}):
                waiting.remove(number)
                host.keep(needs[number].union(*in_use))
                running[threads.submit(copy_context().run, carry_out, number)] = number

    with ThreadPoolExecutor(at_once, thread_name_prefix="run") as threads:
        try:
            begin()
            while running:
                done = [(running.pop(future), future) for future in wait(running, return_when=FIRST_COMPLETED).done]
                begin()
                for number, future in done:
                    end(number, future.result())
        except BaseException:
            host.cancel_runs()
            raise


def engine_keys(options: RunOptions, blocks: Blocks | None = None) -> frozenset[str]:
    """The keys of the engines that a run may start; none if its config cannot be used."""
    try:
        models = [
            spec for task in planned(options, blocks=blocks, read_only=True).plan.tasks for _, spec in task.models
        ]
        keys = [spec.engine_key for spec in models]
    except Exception as error:  # noqa: BLE001 - the run itself reports it
        _log.debug("the engines of %s are not known: %s", options.config, error)
        return frozenset()
    return frozenset(key for key in keys if key is not None)
