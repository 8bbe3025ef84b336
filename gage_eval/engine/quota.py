"""Amounts that several processes share through their store: each takes only what the others leave.

Each process has an object in a common folder that says what it holds. To get more, it writes its claim, then reads what
the others hold, and uses the claim only as far as the sum allows. Of two that claim at the same moment at least one
sees the other. To give something back, it stops using it before it writes so. No clocks are compared.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from gage_eval.base.errors import StoreError
from gage_eval.store.heartbeats import Heartbeat, Watch
from gage_eval.store.objects import Objects

# One number for each shared amount.
Amounts: TypeAlias = tuple[float, ...]


@dataclass(frozen=True)
class Holder:
    """Another process, as its object tells.

    Attributes:
        path: its object.
        held: what it holds.
        state: what else it says.
        is_gone: it has shown no sign of life for too long.
    """

    path: str
    held: Amounts
    state: Mapping[str, Any]
    is_gone: bool


class Quota:
    """This process's part of some amounts. Use it from one thread.

    Args:
        objects: where the processes meet.
        folder: the folder of their objects.
        totals: what all may hold together.
        in_use: what this process uses and cannot give back now; called in `hold`.
        state: what else its object says, as JSON values.
        use: called with what this process holds when that changes.
        gone_s: after how long without a sign of life a process is gone.

    Attributes:
        path: this process's object.
        held: what this process may use.
    """

    def __init__(
        self,
        objects: Objects,
        folder: str,
        totals: Amounts,
        *,
        in_use: Callable[[], Amounts],
        state: Callable[[], Mapping[str, Any]],
        use: Callable[[Amounts], None],
        gone_s: float,
    ) -> None:
        self._objects = objects
        self._folder = folder
        self._totals = totals
        self._in_use = in_use
        self._use = use
        self._gone_s = gone_s
        self.path = f"{folder}/{uuid.uuid4().hex}.json"
        self.held: Amounts = tuple(0.0 for _ in totals)
        self._claimed = self.held
        self._sign = Heartbeat(objects, self.path, lambda: {**state(), "held": list(self._claimed)})
        self._watches: dict[str, Watch] = {}
        self._known: dict[str, dict[str, Any]] = {}

    @property
    def uses_more(self) -> bool:
        """Whether this process still used more than it holds when it last wrote its object."""
        return any(claimed > held for claimed, held in zip(self._claimed, self.held, strict=True))

    def hold(self, wanted: Callable[[Sequence[Holder]], Amounts]) -> Sequence[Holder]:
        """Hold as much of what is wanted as the others leave, and renew the sign of life. Returns the others.

        Args:
            wanted: gets the others, and returns what this process wants to hold.

        Raises:
            StoreError: the store cannot be read or written.
        """
        others = self._others()
        claim = _least(wanted(others), self._left_by(others))
        kept = _least(claim, self.held)
        self._set(kept)
        self._write(claim)
        if claim != kept:
            others = self._others()
            self._set(_most(kept, _least(claim, self._left_by(others))))
            if self.held != claim:
                self._write(self.held)
        return others

    def leave(self) -> None:
        """Give everything back. What the others see is then removed."""
        self._set(tuple(0.0 for _ in self._totals))
        with suppress(StoreError):
            self._objects.delete(self.path)

    def _set(self, held: Amounts) -> None:
        if held != self.held:
            self.held = held
            self._use(held)

    def _write(self, claim: Amounts) -> None:
        self._claimed = _most(claim, self._in_use())
        self._sign.write()

    def _left_by(self, others: Sequence[Holder]) -> Amounts:
        taken = [sum(amounts) for amounts in zip(*(other.held for other in others), strict=True)]
        return tuple(
            max(0.0, total - sum_) for total, sum_ in zip(self._totals, taken or [0.0] * len(self._totals), strict=True)
        )

    def _others(self) -> list[Holder]:
        paths = [item.path for item in self._objects.list(self._folder) if item.path != self.path]
        self._watches = {path: self._watches.get(path) or self._watch(path) for path in paths}
        self._known = {path: sign for path in paths if (sign := self._look_at(path)) is not None}
        others = [
            Holder(path, tuple(sign["held"]), sign, self._watches[path].is_gone) for path, sign in self._known.items()
        ]
        for other in others:
            if other.is_gone:
                self._objects.delete(other.path)
        return [other for other in others if not other.is_gone]

    def _look_at(self, path: str) -> dict[str, Any] | None:
        """The content of another process's object; the last known if it cannot be read now."""
        return self._watches[path].look() or self._known.get(path)

    def _watch(self, path: str) -> Watch:
        return Watch(self._objects, path, gone_s=self._gone_s)


def _least(first: Amounts, other: Amounts) -> Amounts:
    return tuple(map(min, first, other))


def _most(first: Amounts, other: Amounts) -> Amounts:
    return tuple(map(max, first, other))
