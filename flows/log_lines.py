"""Sends the log messages of gage_eval to the page of a flow run."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger("gage_eval")


@contextmanager
def log_lines(say: Callable[[str, int], None]) -> Iterator[None]:
    """Send log messages of gage_eval, from INFO on.

    Args:
        say: receives the text and the level of each message.
    """
    handler = _Handler(say)
    before = _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.setLevel(before)
        _log.removeHandler(handler)


class _Handler(logging.Handler):
    """Forwards log messages as text."""

    def __init__(self, say: Callable[[str, int], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage(), record.levelno)
