"""The one interface through which stages say what they do."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol


class Observer(Protocol):
    """Is told what starts, moves and ends. Called from several threads; must not raise."""

    def started(self, task_id: str, stage: str) -> None: ...

    def progress(
        self, task_id: str, stage: str, done: int, total: int | None, figures: Mapping[str, int | float]
    ) -> None: ...

    def finished(self, result: Any) -> None:
        """A stage ended with this `gage_eval.stages.StageResult`."""

    def failed(self, task_id: str, stage: str, error: BaseException) -> None: ...

    def note(self, task_id: str | None, kind: str, payload: Mapping[str, Any]) -> None:
        """Anything else worth an event: a reject, a retry storm, a warning."""


class Observers:
    """Several observers as one."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers = tuple(observers)

    def started(self, task_id: str, stage: str) -> None:
        for observer in self._observers:
            observer.started(task_id, stage)

    def progress(
        self, task_id: str, stage: str, done: int, total: int | None, figures: Mapping[str, int | float]
    ) -> None:
        for observer in self._observers:
            observer.progress(task_id, stage, done, total, figures)

    def finished(self, result: Any) -> None:
        for observer in self._observers:
            observer.finished(result)

    def failed(self, task_id: str, stage: str, error: BaseException) -> None:
        for observer in self._observers:
            observer.failed(task_id, stage, error)

    def note(self, task_id: str | None, kind: str, payload: Mapping[str, Any]) -> None:
        for observer in self._observers:
            observer.note(task_id, kind, payload)
