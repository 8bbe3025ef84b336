"""Limits of an endpoint that all runs of a store share.

Each run that uses the endpoint holds its part of the limits in the store (`gage_eval.engine.quota`): while it has
something to send, its share of the permits by its rank among those that send, and an equal share of the rates. A run
that comes takes only what the others have given back, so it may wait a few seconds for its first permit.
"""

import logging
import time
from collections.abc import Callable, Sequence

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import StoreError
from gage_eval.base.periodic import Periodic
from gage_eval.engine.quota import Amounts, Holder, Quota
from gage_eval.store.gc import LIMITS
from gage_eval.store.heartbeats import RENEW_S
from gage_eval.store.objects import Objects

# How often a run notices that it has something to send.
_TICK_S = 0.1
# A part of the rates below this is what rounding has left.
_LEAST_PART = 1e-6

_log = logging.getLogger(__name__)


class SharedLimits:
    """This process's part of the limits of one endpoint, from `start` until `stop`.

    Args:
        objects: where the runs meet.
        endpoint: what names the endpoint, the same in all runs.
        permits: requests in flight that all runs may have together.
        is_busy: whether this run has something to send.
        in_flight: requests that this run has in flight.
        apply: called with (permits, share of the rates) when this run's part changes, from any thread.
    """

    def __init__(
        self,
        objects: Objects,
        endpoint: JsonValue,
        permits: int,
        is_busy: Callable[[], bool],
        in_flight: Callable[[], int],
        apply: Callable[[int, float], None],
        *,
        renew_s: float = RENEW_S,
    ) -> None:
        self._permits = permits
        self._is_busy = is_busy
        self._apply = apply
        self._renew_s = renew_s
        self._quota = Quota(
            objects,
            f"{LIMITS}/{digest(endpoint)[:32]}",
            (permits, 1.0),
            in_use=lambda: (in_flight(), 0.0),
            state=lambda: {"busy": is_busy()},
            use=self._use,
            gone_s=2 * renew_s,
        )
        self._share: Amounts = self._quota.held
        self._was_busy = False
        self._looked = time.monotonic()
        self._looking = Periodic(self._look_if_due, min(_TICK_S, renew_s), name="gage-eval-limits")

    def start(self) -> None:
        """Take this run's part now, and follow the others from now on.

        Raises:
            StoreError: the store cannot be read or written.
        """
        self._use(self._quota.held)
        self._look()
        self._looking.start()

    def stop(self) -> None:
        """Leave the limits to the others."""
        self._looking.stop()
        self._quota.leave()

    def _look_if_due(self) -> None:
        if time.monotonic() - self._looked < self._look_every_s:
            return
        try:
            self._look()
        except StoreError as error:
            # The last known part stays.
            _log.debug("the runs that share an endpoint could not be counted: %s", error)

    @property
    def _look_every_s(self) -> float:
        if not self._is_busy():
            return self._renew_s
        if not self._was_busy:
            return 0.0
        waits = self._quota.held != self._share or self._quota.uses_more
        return self._renew_s / 5 if waits else self._renew_s

    def _look(self) -> None:
        """Take this run's share, as far as the others leave it."""
        self._looked = time.monotonic()
        self._quota.hold(self._fair_share)

    def _fair_share(self, others: Sequence[Holder]) -> Amounts:
        self._was_busy = self._is_busy()
        if self._was_busy:
            sending = sorted([self._quota.path, *(other.path for other in others if other.state["busy"])])
            rank = sending.index(self._quota.path)
            self._share = (self._permits // len(sending) + (rank < self._permits % len(sending)), 1.0 / len(sending))
        else:
            self._share = (0, 0.0)
        return self._share

    def _use(self, held: Amounts) -> None:
        permits, part = held
        if permits >= 1 and part > _LEAST_PART:
            self._apply(int(permits), part)
        else:
            self._apply(0, 1.0)
