"""Log lines of gage_eval on the page of a flow run."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.context import get_run_context
from prefect.exceptions import MissingContextError
from prefect.logging import handlers
from prefect.logging.handlers import APILogHandler, APILogWorker
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.api import is_unanswered

# Lines that a server did not take are sent again after this time in seconds. After the last line they are given up when
# this many tries have failed.
_AGAIN_S = 1.0
_LAST_TRIES = 8

_log = logging.getLogger("gage_eval")
# Lines for the developer, which are on no page.
_quiet_log = logging.getLogger(__name__)


@contextmanager
def log_lines(flow_run_id: str) -> Iterator[None]:
    """Show the log lines of gage_eval on the page of a flow run, from INFO on, by Prefect's own handler."""
    if handlers._api_log_sink is None:  # A process of a pool sends its lines to the process that started it.
        handlers.set_api_log_sink(_send)
    there = [handler for handler in _log.handlers if isinstance(handler, APILogHandler)]
    handler = there[0] if there else APILogHandler()
    _log.addHandler(handler)
    handler.addFilter(_of_flow_run)
    _log.setLevel(logging.INFO)
    _of_flow_run.flow_runs.append(flow_run_id)
    try:
        yield
    finally:
        _of_flow_run.flow_runs.remove(flow_run_id)


class _OfFlowRun(logging.Filter):
    """Lines without the context of a run, such as those of the event loop's thread, go to the newest flow run."""

    def __init__(self) -> None:
        super().__init__()
        self.flow_runs: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            get_run_context()
        except MissingContextError:
            if not self.flow_runs:
                return False
            record.flow_run_id = self.flow_runs[-1]
        return True


_of_flow_run = _OfFlowRun()


class _LogWorker(APILogWorker):
    """Sends log lines in their order, and keeps those that the server did not take until it is back.

    Prefect's worker waits twice as long after each try, up to half a minute, and then drops the lines. A run that ends
    in such a pause, soon after its server is back, would leave all its last lines unsent.
    """

    async def _handle_batch(self, items: list[dict[str, Any]]) -> None:
        tries = _LAST_TRIES
        while tries:
            try:
                with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
                    await self._client.create_logs(items)
            except Exception as error:  # noqa: BLE001 - a line that cannot be shown must not stop the others
                _quiet_log.debug("the Prefect API did not take %d log lines: %r", len(items), error)
                if not is_unanswered(error):
                    return
                if self._stopped:
                    tries -= 1
                await asyncio.sleep(_AGAIN_S)
            else:
                return


def _send(line: dict[str, Any]) -> None:
    _LogWorker.instance().send(line)
