"""The flow of a shard: it serves a model session on the machine of a work pool."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect import flow, runtime
from prefect.client.schemas import State
from prefect.logging import get_run_logger
from prefect.states import Cancelled, Completed

from blocks import PrefectBlocks
from flows.guard import load_only_what_is_allowed
from flows.shown import end_state
from gage_eval.errors import GageError, RunCancelled
from gage_eval.runs.shard import serve_at

_log = logging.getLogger("gage_eval")


def run_name() -> str:
    """Name of the flow run: the session and the shard's number."""
    session = str(runtime.flow_run.parameters.get("session", "")).rstrip("/").rpartition("/")[2]
    return f"session-{session[:8]}-{runtime.flow_run.parameters.get('shard', 0)}"


@flow(name="generate", flow_run_name=run_name, persist_result=False)
def generate(session: str, shard: int = 0) -> State[Any]:
    """Serve a model session: start its engine once and answer its requests, together with other shards.

    Runs that place a model on this work pool start it. There is no need to start it by hand.

    Args:
        session: URL of the session, in a store that this machine can read and write.
        shard: The number of the shard, counted from 0.
    """
    with _log_lines():
        try:
            load_only_what_is_allowed()
            sent = serve_at(session, shard, blocks=PrefectBlocks())
        except RunCancelled as ended:
            return Cancelled(message=f"The session has ended: {ended}")
        except Exception as error:  # noqa: BLE001 - becomes the flow run's state
            if not isinstance(error, GageError):
                _log.exception("the shard failed")
            return end_state(error)
    return Completed(message=f"{sent:,} requests sent")


@contextmanager
def _log_lines() -> Iterator[None]:
    """Send log messages of gage_eval to the flow run's log."""
    handler = _Handler(get_run_logger())
    before = _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.setLevel(before)
        _log.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, target: "logging.Logger | logging.LoggerAdapter[logging.Logger]") -> None:
        super().__init__(logging.INFO)
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        self._target.log(record.levelno, "%s", record.getMessage())
