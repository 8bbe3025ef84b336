"""Rate limits of an endpoint, and a circuit breaker for one that is down."""

import math
import time
from collections.abc import Callable

from gage_eval.models.client.retry import Failure

# This share of a minute's allowance may be sent at once.
_BURST_S = 1.0
# An endpoint that never answered gets this share of the time that one gets that answered before.
_NEVER_THERE = 1 / 6
# Bytes of a request body per token, until the first answer gives the real ratio.
_BYTES_PER_TOKEN = 4


class Pace:
    """A first-come-first-served rate limit (the generic cell rate algorithm).

    Args:
        per_minute: units per minute; about one second's worth may be taken at once.
        now: a monotonic clock in seconds.
    """

    def __init__(self, per_minute: float, now: Callable[[], float] = time.monotonic) -> None:
        self._whole = self._interval = 60.0 / per_minute
        self._now = now
        self._due = now() - _BURST_S

    def take(self, units: float) -> float:
        """Take units and return the seconds to wait before they are used."""
        due = max(self._due, self._now() - _BURST_S)
        self._due = due + units * self._interval
        return max(0.0, due - self._now())

    def share(self, part: float) -> None:
        """Take only a part of the rate from now on; other processes take the rest."""
        self._interval = self._whole / part

    def correct(self, units: float) -> None:
        """Correct the estimate: this many more units were used than taken; fewer when negative."""
        self._due += units * self._interval


class Rates:
    """Requests and tokens per minute of one endpoint.

    A request's tokens are estimated by the mean of the answers so far, then corrected by the endpoint's own count.

    Attributes:
        limited: whether any limit is set.
    """

    def __init__(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        self._requests = Pace(requests_per_minute) if requests_per_minute else None
        self._tokens = Pace(tokens_per_minute) if tokens_per_minute else None
        self.limited = self._requests is not None or self._tokens is not None
        self._used = 0
        self._answers = 0

    def share(self, part: float) -> None:
        """Take only a part of the rates from now on."""
        for pace in (self._requests, self._tokens):
            if pace is not None:
                pace.share(part)

    def turn(self, body: bytes) -> tuple[float, float]:
        """Take a turn for a request. Returns the seconds to wait and the tokens reserved."""
        wait = 0.0 if self._requests is None else self._requests.take(1)
        estimate = 0.0
        if self._tokens is not None:
            estimate = self._used / self._answers if self._answers else len(body) / _BYTES_PER_TOKEN
            wait = max(wait, self._tokens.take(estimate))
        return wait, estimate

    def used(self, estimate: float, tokens: int | None) -> None:
        """Correct a request's reserved tokens by the tokens it used; None where the endpoint does not count them."""
        if self._tokens is None or tokens is None:
            return
        self._used += tokens
        self._answers += 1
        self._tokens.correct(tokens - estimate)


class Breaker:
    """Circuit breaker: distinguishes an endpoint that is down from one that fails occasionally.

    It opens when for ``give_up_after_s`` there was no answer and every attempt failed. Where no server listens it opens
    at once. Other failures must affect several rows, so that one row that crashes a server does not end the run; before
    it ends, its user asks what was answered before.
    Refusals for load (429, or with a `Retry-After`) are signs of life. They open it only where there never was an
    answer, after ``refused_most_s`` or after the time that the endpoint asked for, if that is longer.

    Both wait for the attempts that were sent within their time, because a slow endpoint may still answer.

    Args:
        give_up_after_s: how long the endpoint may fail.
        refused_most_s: how long the endpoint may refuse everything from its first answer on.
        now: a monotonic clock in seconds.
    """

    _ROWS = 3

    def __init__(
        self, give_up_after_s: float, refused_most_s: float = math.inf, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._give_up_after_s = give_up_after_s
        self._refused_most_s = refused_most_s
        self._now = now
        self._since: float | None = None
        self._rows = 0
        self._there = False
        self._answers = False
        self._refused_since: float | None = None
        # Seconds after the first refusal until which the endpoint asked us to wait.
        self._left_alone_s = 0.0
        # Send times of the attempts in flight, oldest first.
        self._sent: dict[int, float] = {}
        self._attempts = 0

    def sent(self) -> int:
        """Note that an attempt begins. Returns its number, for `ended`."""
        self._attempts = attempt = self._attempts + 1
        self._sent[attempt] = self._now()
        return attempt

    def ended(self, attempt: int) -> None:
        """Note that an attempt ended; its result is reported next."""
        del self._sent[attempt]

    def answered(self) -> None:
        """The endpoint answered."""
        self._answers = True
        self._lives()

    def opened_by(self, failure: Failure, attempts: int) -> float | None:
        """Count a failed attempt. Returns how long the endpoint has been failing once that is too long, else None.

        Args:
            failure: the attempt's failure.
            attempts: failed attempts of this call so far.
        """
        now = self._now()
        if failure.is_refusal:
            self._lives()
            return None if self._answers else self._refused(now, failure.retry_after_s or 0.0)
        if self._since is None:
            self._since = now
        if self._rows == 0 or attempts == 1:
            self._rows += 1
        failing = now - self._since
        unreachable = failure.kind == "unreachable"
        self._there |= not unreachable
        gone = unreachable or (self._rows >= self._ROWS and not self._is_awaited(self._since + self._most_s))
        return failing if gone and failing >= self._most_s else None

    def soonest(self, wait_s: float) -> float:
        """How long to wait where no server listens: at most until the endpoint counts as down."""
        since = self._now() if self._since is None else self._since
        return min(wait_s, max(0.0, since + self._most_s - self._now()))

    @property
    def is_failing(self) -> bool:
        """Whether every attempt since the last answer failed, and there was one."""
        return self._since is not None

    @property
    def _most_s(self) -> float:
        return self._give_up_after_s if self._there else self._give_up_after_s * _NEVER_THERE

    def _lives(self) -> None:
        self._there = True
        self._since = None
        self._rows = 0

    def _refused(self, now: float, retry_after_s: float) -> float | None:
        if self._refused_since is None:
            self._refused_since = now
        refusing = now - self._refused_since
        if refusing < self._refused_most_s:
            self._left_alone_s = max(self._left_alone_s, refusing + retry_after_s)
            return None
        over = refusing >= self._left_alone_s and not self._is_awaited(self._refused_since + self._refused_most_s)
        return refusing if over else None

    def _is_awaited(self, moment: float) -> bool:
        """Whether an attempt that was sent before a moment is still in flight."""
        return next(iter(self._sent.values()), math.inf) < moment
