"""An adaptive limit on concurrent calls to an endpoint."""

import math

# A window has at least this many attempts; fewer say nothing.
_MIN_WINDOW = 10
# A larger share of refusals means overload; a smaller one is normal for a shared endpoint. A window counts as
# overloaded when it has more refusals than chance would give (two standard deviations).
_OVERLOAD_SHARE = 0.1
_DEVIATIONS = 2.0
_DECREASE = 0.85
# After this many good windows just below the known bad limit, that limit is tried again. Doubled after each failure.
_PATIENCE = 10
_MOST_PATIENCE = 80


class Adaptive:
    """A limit on concurrent calls that follows the endpoint: additive increase, multiplicative decrease.

    Overload (429, 503, timeouts) multiplies the limit by a factor below 1, or lowers it to the number of calls that the
    endpoint did take. A window of attempts is as long as the limit. After each good window the limit doubles up to the
    last safe value, then grows by one, and stays just below the known bad value. That value is tried again now and
    then; a few calls are refused each time. It is not tried when only a few calls are left.

    The limit starts at its cap, so that a healthy endpoint never waits for it.

    Args:
        cap: the limit never exceeds it.
    """

    __slots__ = ("_bad", "_cap", "_good", "_linger", "_patience", "_safe", "_too_much", "_wanted", "limit")

    def __init__(self, cap: int) -> None:
        self.limit = self._cap = self._safe = cap
        self._too_much = cap + 1
        self._good = self._bad = self._patience = self._wanted = 0
        self._linger = _PATIENCE

    def answered(self) -> bool:
        """An attempt succeeded. Returns whether its window is full, and `judge` is due."""
        self._good += 1
        seen = self._good + self._bad
        return seen >= self.limit and seen >= _MIN_WINDOW

    def overloaded(self, active: int, wanted: int) -> None:
        """An attempt was refused, or not answered in time; arguments as for `judge`."""
        self._bad += 1
        # A burst is evaluated as it arrives: the calls still in flight are those that the endpoint accepted.
        burst = self._good + self._bad >= max(min(self.limit, active), _MIN_WINDOW)
        if burst or (self._tries() and self._is_overload(max(self.limit, _MIN_WINDOW))):
            self.judge(active, wanted)

    def _tries(self) -> bool:
        """Whether the limit is at the level that overloaded the endpoint before."""
        return self.limit >= self._too_much

    def _is_overload(self, attempts: int) -> bool:
        expected = _OVERLOAD_SHARE * attempts
        return self._bad > expected + _DEVIATIONS * math.sqrt(expected * (1 - _OVERLOAD_SHARE))

    def judge(self, active: int, wanted: int) -> None:
        """Change the limit by the results of the last window of attempts.

        Args:
            active: calls in flight, including the one that filled the window.
            wanted: calls in flight, waiting for a permit, or waiting for a retry.
        """
        overload = self._is_overload(self._good + self._bad)
        self._good = self._bad = 0
        fewer, self._wanted = wanted < self._wanted, wanted
        if overload and self._tries():
            self.limit = self._too_much - 1
            self._patience = self._linger = min(2 * self._linger, _MOST_PATIENCE)
        elif overload:
            self._too_much = max(2, min(self.limit, active + 1))
            self._patience = self._linger = _PATIENCE
            self._safe = max(1, int(self.limit * _DECREASE))
            self.limit = max(1, min(self._safe, active - 1))
        elif active >= self.limit:
            if self._tries():
                self._too_much = self.limit + 1
                self._linger = _PATIENCE
            self._grow(fewer=fewer)

    def _grow(self, *, fewer: bool) -> None:
        if self.limit + 1 >= self._too_much and (self._patience or fewer):
            self._patience = max(0, self._patience - 1)
        else:
            self.limit = min(self._cap, 2 * self.limit if 2 * self.limit <= self._safe else self.limit + 1)
