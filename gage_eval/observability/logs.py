"""Messages of Python's `logging` as events."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gage_eval.base.errors import visible
from gage_eval.observability.events import LogRecorded
from gage_eval.observability.observer import Observer

_OWN = logging.getLogger("gage_eval")
_ROOT = logging.getLogger()


@contextmanager
def log_events(observer: Observer, level: int) -> Iterator[None]:
    """Report messages of gage-eval's loggers as events for the duration of a context.

    What other handlers show stays the same. Several runs in one process get each other's messages.

    Args:
        observer: receives `LogRecorded` events.
        level: a level of `logging`.
    """
    handler = _EventHandler(observer, level)
    _add(handler)
    try:
        yield
    finally:
        _remove(handler)


class _EventHandler(logging.Handler):
    def __init__(self, observer: Observer, level: int) -> None:
        super().__init__(level)
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            # The message's arguments do not fit it. Other handlers say so.
            text = str(record.msg)
        self._observer.emit(LogRecorded(record.levelname, record.name, visible(text)))


class _ToRoot(logging.Handler):
    """Passes messages of gage-eval on to the root's handlers as if its level were still the one before.

    A message that a logger lets through goes to all handlers above, whatever the level of the loggers there.
    """

    def __init__(self, before: int) -> None:
        super().__init__(before)

    def emit(self, record: logging.LogRecord) -> None:
        _ROOT.callHandlers(record)


_handlers: list[_EventHandler] = []
_lock = threading.Lock()
_before: tuple[int, bool, _ToRoot] | None = None


def _add(handler: _EventHandler) -> None:
    global _before
    with _lock:
        if _before is None:
            to_root = _ToRoot(_OWN.getEffectiveLevel())
            _before = _OWN.level, _OWN.propagate, to_root
            if _OWN.propagate:
                _OWN.addHandler(to_root)
                _OWN.propagate = False
        _handlers.append(handler)
        _OWN.addHandler(handler)
        _OWN.setLevel(min(_before[2].level, *(handler.level for handler in _handlers)))


def _remove(handler: _EventHandler) -> None:
    global _before
    with _lock:
        _handlers.remove(handler)
        _OWN.removeHandler(handler)
        if _handlers or _before is None:
            return
        level, propagate, to_root = _before
        _before = None
        _OWN.removeHandler(to_root)
        _OWN.propagate = propagate
        _OWN.setLevel(level)
