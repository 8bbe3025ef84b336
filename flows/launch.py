"""Starting a flow from this process, as the command line and the Python API do."""

import logging
import os
from collections.abc import Iterable

from gage_eval.config.secrets import scrub
from gage_eval.errors import GageError, InputError
from gage_eval.observability.observer import Observer
from gage_eval.packaged import packages_beside
from gage_eval.runs import RunOptions, RunOutcome


def launch(options: RunOptions, api_url: str, observers: Iterable[Observer] = ()) -> RunOutcome:
    """Run the options as a flow run of this process, recorded at a Prefect API.

    Args:
        options: what is asked.
        api_url: the API, as PREFECT_API_URL has it.
        observers: told what happens.

    Raises:
        InputError: the API does not answer.
        GageError: what stopped the run.
    """
    _configure(api_url)
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        raise InputError(
            f"the Prefect API at {scrub(api_url)} does not answer ({type(problem).__name__}). Start it, unset "
            "PREFECT_API_URL, or run with --inline."
        )
    with packages_beside():
        from flows.parameters import parameters_of
        from flows.runner import Watch, watching
        from flows.suite import suite

    watch = Watch(tuple(observers))
    with watching(watch):
        suite(**parameters_of(options))
    if watch.outcome is None:
        raise GageError("the flow run ended without a result; look at it in the Prefect UI.")
    return watch.outcome


def _configure(api_url: str) -> None:
    """Settings of the Prefect client, before it is imported: quiet here, our log lines sent to the API."""
    os.environ["PREFECT_API_URL"] = api_url
    for name, value in {
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_EXTRA_LOGGERS": "gage_eval",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    }.items():
        os.environ.setdefault(name, value)
    logging.getLogger("gage_eval").setLevel(logging.INFO)
