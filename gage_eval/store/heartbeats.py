"""Signs of life: a process rewrites a small object every few seconds, and others see that it lives.

No clocks are compared. A reader measures with its own clock how long an object has not changed, and does not count the
time in which it cannot read the store.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from gage_eval.base.canonical import canonical_json, decode
from gage_eval.base.errors import StoreError
from gage_eval.base.periodic import Periodic
from gage_eval.store.objects import Objects, read_if_there

# How often a sign is renewed, and after how long without a change its process counts as gone.
RENEW_S = 5.0
GONE_S = 10.0

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Heartbeat:
    """Renews a sign of life in a separate thread, from `start` until `stop`.

    Attributes:
        objects: where the sign is kept.
        path: its object; no other process writes it.
        state: what the sign also says, as JSON values; called in the thread.
        renew_s: how often it is renewed.
        private: whether the sign holds a secret, and only its owner may read it.
    """

    objects: Objects
    path: str
    state: Callable[[], Mapping[str, Any]] = dict
    _: KW_ONLY
    renew_s: float = RENEW_S
    private: bool = False
    _count: int = 0
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._renewing = Periodic(self._renew, self.renew_s, name="gage-eval-heartbeat")

    def start(self) -> None:
        """Write the first sign, then renew it regularly.

        Raises:
            StoreError: the store cannot be written.
        """
        self.write()
        self._renewing.start()

    def write(self) -> None:
        """Renew the sign now.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._writing:
            self._count += 1
            sign = canonical_json({**self.state(), "renewal": self._count})
            self.objects.replace(self.path, sign, private=self.private)

    def stop(self) -> None:
        """Stop renewing it."""
        self._renewing.stop()

    def _renew(self) -> None:
        try:
            self.write()
        except StoreError as error:
            _log.debug("a sign of life could not be written: %s", error)


class Watch:
    """Looks at the sign of life of another process.

    Args:
        objects: where the sign is kept.
        path: its object.
        gone_s: after how long without a change the process counts as gone.
    """

    def __init__(self, objects: Objects, path: str, *, gone_s: float = GONE_S) -> None:
        self._objects = objects
        self._path = path
        self._gone_s = gone_s
        self._seen: bytes | None = None
        self._since = time.monotonic()
        self._looked = time.monotonic()

    def look(self) -> dict[str, Any] | None:
        """The sign's content; None if there is no sign, or the store cannot be read."""
        now = time.monotonic()
        try:
            data = read_if_there(self._objects, self._path)
        except StoreError:
            # Nothing was seen since the last look.
            self._since += now - self._looked
            self._looked = now
            return None
        if data != self._seen:
            self._seen, self._since = data, now
        self._looked = now
        return None if data is None else _state(data)

    @property
    def is_gone(self) -> bool:
        """Whether the sign has not changed, or not appeared, for too long. `look` regularly."""
        return self._looked - self._since >= self._gone_s


def _state(data: bytes) -> dict[str, Any] | None:
    try:
        value = decode(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
