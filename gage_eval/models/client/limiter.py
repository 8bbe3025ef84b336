"""Limits on the number of calls that an endpoint has in flight."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable

from gage_eval.base.errors import BudgetSpent
from gage_eval.models.client.adaptive import Adaptive


class Limiter:
    """A first-come-first-served limit that may change while calls wait. Use it from one event loop only.

    Its holder keeps a permit until the answer is in the write-ahead log, so a crash loses at most `limit` answers.
    While a call waits for its retry it lends its permit to another (`pause`).

    Args:
        limit: permits; an adaptive limit never exceeds it.
        adaptive: whether `overloaded` changes the limit.

    Attributes:
        on_change: called with the old and the new limit when an adaptive limit changes.
    """

    __slots__ = (
        *("_adaptive", "_cap", "_lent", "_share", "_stopped", "_timers", "_waiting"),
        *("active", "adaptive", "limit", "on_change"),
    )

    _adaptive: Adaptive
    limit: int

    def __init__(self, limit: int, *, adaptive: bool = False) -> None:
        self.adaptive = adaptive
        self.on_change: Callable[[int, int], None] | None = None
        self.active = 0
        # Permits of calls that wait for a retry.
        self._lent = 0
        # Permits that other processes leave to this one.
        self._share = sys.maxsize
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timers: set[asyncio.Future[None]] = set()
        self._stopped: str | None = None
        self.resize(limit)

    @property
    def cap(self) -> int:
        """The largest number of permits."""
        return self._cap

    def resize(self, limit: int) -> None:
        """Change the limit and the cap. A higher limit grants permits at once, a lower one as calls end."""
        if limit < 1:
            raise ValueError(f"a limit of {limit} lets nothing through")
        self._cap = limit
        self._adaptive = Adaptive(limit)
        self._update()

    def answered(self) -> None:
        """An attempt succeeded."""
        if self.adaptive and self._adaptive.answered():
            self._adaptive.judge(self.active, self._wanted)
            self._follow()

    def overloaded(self) -> None:
        """An attempt was refused or timed out: the endpoint is overloaded."""
        if self.adaptive:
            self._adaptive.overloaded(self.active, self._wanted)
            self._follow()

    @property
    def _wanted(self) -> int:
        return self.active + len(self._waiting) + self._lent

    @property
    def is_busy(self) -> bool:
        """Whether a call holds a permit or waits for one."""
        return self._wanted > 0

    def share(self, permits: int) -> None:
        """Leave the other permits to other processes, until the next call. The cap stays; 0 is possible."""
        self._share = permits
        self._update()

    def _follow(self) -> None:
        before = self.limit
        self._update()
        if self.limit != before and self.on_change is not None:
            self.on_change(before, self.limit)

    def _update(self) -> None:
        self.limit = min(self._adaptive.limit, self._share)
        self._grant()

    async def wait(self, seconds: float) -> None:
        """Wait and keep the permit.

        Raises:
            BudgetSpent: nothing more is sent (see `stop`).
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
        """Lend the holder's permit to others for a while, then wait for a permit again.

        Calls take turns: a call that always went first would meet every refusal and use up its attempts.

        Raises:
            BudgetSpent: nothing more is sent (see `stop`).
        """
        self._lent += 1
        self.release()
        try:
            try:
                await self.wait(seconds)
            finally:
                self._lent -= 1
            await self.__aenter__()
        except BaseException:
            # The holder releases its permit when it leaves.
            self.active += 1
            raise
        self._go_on()

    def stop(self, reason: str) -> None:
        """Stop all retries: every call that waits for one, now or later, gets `BudgetSpent` with this reason."""
        self._stopped = reason
        for timer in self._timers:
            _fire(timer)

    def take(self) -> bool:
        """Take a permit at once, if one is free and no call waits for one. Returns whether it was taken."""
        if self.active < self.limit and not self._waiting:
            self.active += 1
            return True
        return False

    async def turn(self) -> None:
        """Wait for a permit and take it."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The permit was granted in the same turn of the loop in which the waiter was cancelled.
                self.release()
            else:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a permit back."""
        self.active -= 1
        if self._waiting:
            self._grant()

    async def __aenter__(self) -> None:
        if not self.take():
            await self.turn()

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def _go_on(self) -> None:
        if self._stopped is not None:
            raise BudgetSpent(self._stopped)

    def _grant(self) -> None:
        while self._waiting and self.active < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.active += 1
                turn.set_result(None)


def _fire(timer: asyncio.Future[None]) -> None:
    if not timer.done():
        timer.set_result(None)


class CombinedLimiter:
    """Holds permits of two limits. The inner limit's is taken first, then the endpoint's."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, outer: Limiter, inner: Limiter) -> None:
        self._outer = outer
        self._inner = inner

    def take(self) -> bool:
        """Take a permit of both at once, if both have a free one. Returns whether they were taken."""
        if not self._outer.take():
            return False
        if self._inner.take():
            return True
        self._outer.release()
        return False

    async def turn(self) -> None:
        """Wait for a permit of each and take them."""
        await self._outer.__aenter__()
        try:
            await self._inner.__aenter__()
        except BaseException:
            self._outer.release()
            raise

    def release(self) -> None:
        """Give back a permit of each."""
        self._inner.release()
        self._outer.release()
