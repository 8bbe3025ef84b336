"""Several runs, one after the other. An engine that more than one of them needs is started once."""

import logging
from collections.abc import Callable, Sequence

from gage_eval.base.errors import GageError, RunCancelled
from gage_eval.engine.host import EngineHost
from gage_eval.models.backends.base import Blocks
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned
from gage_eval.runs.results.reading import RunReader

_log = logging.getLogger(__name__)


def run_in_turn(
    asked: Sequence[RunOptions],
    run: Callable[[RunOptions, EngineHost], RunReader],
    *,
    blocks: Blocks | None = None,
    ended: Callable[[int, RunReader | GageError], None] = lambda number, result: None,
) -> list[RunReader | GageError]:
    """Carry out several runs. If one fails or is cancelled, the others still run.

    Runs that need the same engines follow each other. Before each run, the engines that it does not need stop, so that
    at most the engines of one run are in memory.

    Args:
        asked: the options of each run.
        run: carries out a run with the engines of a host.
        blocks: the blocks of the Prefect API, if there is one.
        ended: called after each run with its position and its result.

    Returns:
        For each of ``asked`` the run, or why there is none.
    """
    needs = [engine_keys(options, blocks) for options in asked]
    results: dict[int, RunReader | GageError] = {}
    with EngineHost() as host:
        for number in sorted(range(len(asked)), key=lambda one: needs.index(needs[one])):
            try:
                host.keep(needs[number])
                results[number] = run(asked[number], host)
            except GageError as error:
                results[number] = error
            except RunCancelled as error:
                # Its own flow run was cancelled. Ctrl-C is another exception, which ends them all.
                results[number] = GageError(f"{error}.")
            ended(number, results[number])
    return [results[number] for number in range(len(asked))]


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
