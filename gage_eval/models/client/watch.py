"""Reports retries to the caller while a call is still waiting."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple


class Retry(NamedTuple):
    """A failed attempt that another one follows.

    Attributes:
        attempt: its number, from 1.
        kind: the kind of failure, one word (``rate_limited``, ``timeout``, …).
        message: one line.
        wait_s: seconds until the next attempt.
    """

    attempt: int
    kind: str
    message: str
    wait_s: float


# A variable of the context, so that endpoints and backends need not pass on for which sample they are called.
_WATCHER: ContextVar[Callable[[Retry], None] | None] = ContextVar("gage_eval_retry_watcher", default=None)


def watch_retries(watcher: Callable[[Retry], None] | None) -> None:
    """Tell this watcher about the retries of the calls that the current task makes from now on."""
    _WATCHER.set(watcher)


def tell_retry(attempt: int, kind: str, message: str, wait_s: float) -> None:
    """Tell the caller's watcher, if it has one, that a call is sent again."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(Retry(attempt, kind, message, wait_s))
