"""The tokens and the cost that the processes of one run may take together.

The run and its shards hold parts of what is left in the store (`gage_eval.engine.quota`). A process sends requests
until it has spent its part, then waits for another one. Parts become smaller as the limit comes near. A process that
sends nothing gives back what it has not spent.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence

from gage_eval.base.errors import StoreError
from gage_eval.base.periodic import Periodic
from gage_eval.engine.quota import Amounts, Holder, Quota
from gage_eval.models.client.budget import Budget, Part
from gage_eval.store.gc import LIMITS
from gage_eval.store.heartbeats import GONE_S, RENEW_S
from gage_eval.store.objects import Objects, safe_name

# How often a process that has little left asks for more: in a folder, and in a store where that takes requests.
_ASK_EVERY_S = 0.1
_ASK_REMOTE_EVERY_S = 1.0
# A part is at least this share of the limit, so that the end does not take forever.
_LEAST_SHARE = 1 / 1000

_log = logging.getLogger(__name__)


class SharedBudget:
    """This process's part of a run's tokens and cost, from `start` until `stop`.

    Args:
        objects: where the processes meet.
        name: names the budget, the same in all processes of the run.
        budget: what this process spends.
        is_busy: whether this process has something to send.
        is_owner: whether this process removes the budget from the store at its end.
    """

    def __init__(
        self, objects: Objects, name: str, budget: Budget, is_busy: Callable[[], bool], *, is_owner: bool = False
    ) -> None:
        self._budget = budget
        self._is_busy = is_busy
        self._is_owner = is_owner
        self._ask_every_s = _ASK_EVERY_S if objects.local_root is not None else _ASK_REMOTE_EVERY_S
        # Nothing is held of what has no limit.
        self._totals: Amounts = tuple(0.0 if limit == math.inf else limit for limit in budget.limits)
        self._quota = Quota(
            objects,
            f"{LIMITS}/{safe_name(name)}",
            self._totals,
            in_use=self._spent,
            state=lambda: {"busy": self._sends, "spent": list(self._spent())},
            use=lambda held: self._follow(held, self._others_spent),
            # A process that is gone may have spent all that it held.
            frees_gone=False,
            gone_s=GONE_S,
        )
        self._others_spent: Amounts = (0.0, 0.0)
        # More is asked for when so much is spent.
        self._low: Amounts = (0.0, 0.0)
        self._looked = time.monotonic()
        self._looking = Periodic(self._look_if_due, _ASK_EVERY_S, name="gage-eval-budget")

    def start(self) -> None:
        """Follow the others from now on. There is a part when there is something to send.

        Raises:
            StoreError: the store cannot be read or written.
        """
        self._follow(self._quota.held, self._others_spent)
        self._look()
        self._looking.start()

    def stop(self) -> None:
        """Give back what is not spent."""
        self._looking.stop()
        if self._is_owner:
            self._quota.remove()
        else:
            self._try_to_look()

    def _look_if_due(self) -> None:
        waited = time.monotonic() - self._looked
        if waited >= RENEW_S or (waited >= self._ask_every_s and self._asks):
            self._try_to_look()

    @property
    def _asks(self) -> bool:
        """Whether this process has spent its part, or will soon have."""
        spent = zip(self._spent(), self._low, self._totals, strict=True)
        return self._budget.waiting > 0 or (self._sends and any(total and used >= low for used, low, total in spent))

    @property
    def _sends(self) -> bool:
        return self._is_busy() and not self._looking.is_stopped

    def _try_to_look(self) -> None:
        try:
            self._look()
        except StoreError as error:
            # The last known part stays.
            _log.debug("the processes that share a budget could not be counted: %s", error)

    def _look(self) -> None:
        self._looked = time.monotonic()
        others = self._quota.hold(self._wanted)
        spent = [tuple(other.held if other.is_gone else other.state["spent"]) for other in others]
        self._others_spent = _sum(spent)
        self._follow(self._quota.held, self._others_spent)
        self._low = tuple((used + held) / 2 for used, held in zip(self._spent(), self._quota.held, strict=True))

    def _wanted(self, others: Sequence[Holder]) -> Amounts:
        """What is spent and, while there is something to send, an equal share of half of what is left."""
        spent = self._spent()
        held = _sum([other.held for other in others])
        left = [total - taken - used for total, taken, used in zip(self._totals, held, spent, strict=True)]
        if not self._sends or any(total and rest <= 0 for total, rest in zip(self._totals, left, strict=True)):
            # Who can send nothing keeps nothing from the others, also of the other limit.
            return spent
        sharers = 1 + sum(bool(other.state["busy"]) and not other.is_gone for other in others)
        return tuple(
            used + min(rest, max(rest / (2 * sharers), total * _LEAST_SHARE))
            for used, rest, total in zip(spent, left, self._totals, strict=True)
        )

    def _spent(self) -> Amounts:
        tokens, cost = self._budget.tokens, self._budget.cost
        return (tokens if self._totals[0] else 0.0, cost if self._totals[1] else 0.0)

    def _follow(self, held: Amounts, others_spent: Amounts) -> None:
        tokens, cost = (part if total else math.inf for part, total in zip(held, self._totals, strict=True))
        self._budget.part = Part(tokens, cost, *others_spent)


def _sum(amounts: Sequence[Amounts]) -> Amounts:
    return tuple(map(sum, zip((0.0, 0.0), *amounts, strict=True)))
