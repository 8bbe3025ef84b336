"""The interface through which a run reports its events."""

from collections.abc import Iterable
from typing import Protocol

from gage_eval.observability.events import Event


class Observer(Protocol):
    """Receives every event of a run. Called from several threads; must not raise."""

    def emit(self, event: Event) -> None: ...


class Observers:
    """Several observers as one."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers = tuple(observers)

    def emit(self, event: Event) -> None:
        for observer in self._observers:
            observer.emit(event)
