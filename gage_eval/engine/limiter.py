"""How many calls an endpoint has in flight at once."""

import asyncio
import math
from collections import deque

from gage_eval.errors import BudgetSpent

# An adaptive limit judges so many attempts together; fewer say nothing.
_MIN_WINDOW = 10
# A larger share of refusals is overload, a smaller one how a shared endpoint always is; a window says so when it has
# more than chance would give it (two standard deviations).
_OVERLOAD_SHARE = 0.1
_DEVIATIONS = 2.0
_DECREASE = 0.85
# So many good windows just below what was too much, before that is tried again; twice as many after each vain try.
_PATIENCE = 10
_MOST_PATIENCE = 80


class Limiter:
    """A first-come-first-served limit that may change while calls wait; used from one event loop only.

    The holder of a slot keeps it until the answer's log record is written, so that a crash loses at most
    `limit` answers. While a call waits to be sent again it lends its slot to another (`paused`).

    An adaptive limit follows the endpoint: overload (429, 503, timeouts) decreases it by a factor, or to no more than the
    calls that the endpoint did take. After each window of as many attempts as the limit that went well it doubles up to
    what was safe, then grows by one, and lingers just below what was too much. Then that is tried again, at the price of
    the few calls that are refused, and not when fewer and fewer calls are left, which would have to wait for those. It
    starts at its cap, so that a healthy endpoint never waits for it.

    Args:
        limit: slots; an adaptive limit never exceeds it.
        adaptive: whether `overloaded` changes the limit.
    """

    __slots__ = (
        "_bad", "_cap", "_good", "_lent", "_linger", "_patience", "_safe", "_stopped", "_timers", "_too_much", "_waiting",
        "_wanted", "active", "adaptive", "limit",
    )  # fmt: skip

    def __init__(self, limit: int, *, adaptive: bool = False) -> None:
        self.adaptive = adaptive
        self.active = 0
        # Slots of calls that wait to be sent again.
        self._lent = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timers: set[asyncio.Future[None]] = set()
        self._stopped: str | None = None
        self._set(limit)

    @property
    def cap(self) -> int:
        """The most slots there may be."""
        return self._cap

    def resize(self, limit: int) -> None:
        """Change the limit and the cap: more slots are given out at once, fewer as calls end."""
        self._set(limit)
        self._grant()

    def answered(self) -> None:
        """An attempt got through."""
        if self.adaptive:
            self._good += 1
            if self._good + self._bad >= self.limit and self._good + self._bad >= _MIN_WINDOW:
                self._judge()

    def overloaded(self) -> None:
        """An attempt was refused, or not answered in time: the endpoint has too much to do."""
        if self.adaptive:
            self._bad += 1
            # A burst is judged while it comes in: what is still under way is what the endpoint took.
            if self._good + self._bad >= max(min(self.limit, self.active), _MIN_WINDOW) or (
                self.limit >= self._too_much and self._is_overload(max(self.limit, _MIN_WINDOW))
            ):
                self._judge()

    async def wait(self, seconds: float) -> None:
        """Wait with the slot held.

        Raises:
            BudgetSpent: nothing more is sent (`stop`).
        """
        if self._stopped is None:
            loop = asyncio.get_running_loop()
            timer = loop.create_future()
            handle = loop.call_later(seconds, _fire, timer)
            self._timers.add(timer)
            try:
                await timer
            finally:
                self._timers.discard(timer)
                handle.cancel()
        self._go_on()

    async def pause(self, seconds: float) -> None:
        """Lend the holder's slot to others for a while, then take the next one that is free.

        Raises:
            BudgetSpent: nothing more is sent (`stop`).
        """
        self._lent += 1
        self._release()
        try:
            try:
                await self.wait(seconds)
            finally:
                self._lent -= 1
            await self._enter(first=True)
        except BaseException:
            # The holder gives back what it holds when it leaves.
            self.active += 1
            raise
        self._go_on()

    def stop(self, reason: str) -> None:
        """Have nothing sent again: who waits to do so gets `BudgetSpent` with this reason, now and from here on."""
        self._stopped = reason
        for timer in self._timers:
            _fire(timer)

    async def __aenter__(self) -> None:
        await self._enter(first=False)

    async def _enter(self, *, first: bool) -> None:
        if self.active < self.limit and not self._waiting:
            self.active += 1
            return
        turn = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The slot was granted in the same turn of the loop in which the waiter was cancelled.
                self._release()
            else:
                self._waiting.remove(turn)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _go_on(self) -> None:
        if self._stopped is not None:
            raise BudgetSpent(self._stopped)

    def _set(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a limit of {limit} lets nothing through")
        self.limit = self._cap = self._safe = limit
        self._too_much = limit + 1
        self._good = self._bad = self._patience = self._wanted = 0
        self._linger = _PATIENCE

    def _is_overload(self, attempts: int) -> bool:
        expected = _OVERLOAD_SHARE * attempts
        return self._bad > expected + _DEVIATIONS * math.sqrt(expected * (1 - _OVERLOAD_SHARE))

    def _judge(self) -> None:
        """Change the limit by what the last window of attempts came to."""
        overload = self._is_overload(self._good + self._bad)
        self._good = self._bad = 0
        wanted = self.active + len(self._waiting) + self._lent
        fewer, self._wanted = wanted < self._wanted, wanted
        tried = self.limit >= self._too_much
        if overload and tried:
            self.limit = self._too_much - 1
            self._linger = min(2 * self._linger, _MOST_PATIENCE)
            self._patience = self._linger
        elif overload:
            self._too_much = max(2, min(self.limit, self.active + 1))
            self._patience = self._linger = _PATIENCE
            self._safe = max(1, int(self.limit * _DECREASE))
            self.limit = max(1, min(self._safe, self.active - 1))
        elif self.active >= self.limit:
            if tried:
                self._too_much = self.limit + 1
                self._linger = _PATIENCE
            self._grow(fewer=fewer)

    def _grow(self, *, fewer: bool) -> None:
        if self.limit >= self._cap:
            return
        if self.limit + 1 >= self._too_much and (self._patience or fewer):
            self._patience = max(0, self._patience - 1)
            return
        self.limit = min(self._cap, 2 * self.limit if 2 * self.limit <= self._safe else self.limit + 1)
        self._grant()

    def _release(self) -> None:
        self.active -= 1
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self.active < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.active += 1
                turn.set_result(None)


def _fire(timer: asyncio.Future[None]) -> None:
    if not timer.done():
        timer.set_result(None)


class Both:
    """A slot of two limits at once: first of the narrower circle, then of the endpoint."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, outer: Limiter, inner: Limiter) -> None:
        self._outer = outer
        self._inner = inner

    async def __aenter__(self) -> None:
        await self._outer.__aenter__()
        try:
            await self._inner.__aenter__()
        except BaseException:
            await self._outer.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._inner.__aexit__()
        await self._outer.__aexit__()
