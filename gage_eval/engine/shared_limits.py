"""Limits of an endpoint that all runs of a store share.

Each run that uses the endpoint keeps a sign of life in the store (`gage_eval.store.heartbeats`). It counts those of the
others that have something to send, and takes its part of the limits: its share of the slots by its rank, and an equal
share of the rates. When a run comes or goes, the others follow within a few seconds.
"""

import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gage_eval.canonical import JsonValue, digest
from gage_eval.errors import StoreError
from gage_eval.store.gc import LIMITS
from gage_eval.store.heartbeats import RENEW_S, Heartbeat, Watch
from gage_eval.store.objects import Objects

_log = logging.getLogger(__name__)


class SharedLimits:
    """This process's part of the limits of one endpoint, from `start` until `stop`.

    Args:
        objects: where the signs of life are kept.
        endpoint: what names the endpoint, the same in all runs.
        slots: requests in flight that all runs may have together.
        is_busy: whether this run has something to send.
        apply: called with (slots, share of the rates) when this run's part changes, from any thread.
    """

    def __init__(
        self,
        objects: Objects,
        endpoint: JsonValue,
        slots: int,
        is_busy: Callable[[], bool],
        apply: Callable[[int, float], None],
        *,
        renew_s: float = RENEW_S,
    ) -> None:
        self._objects = objects
        self._slots = slots
        self._apply = apply
        self._renew_s = renew_s
        self._folder = f"{LIMITS}/{digest(endpoint)[:32]}"
        self._path = f"{self._folder}/{uuid.uuid4().hex}.json"
        self._beat = Heartbeat(objects, self._path, lambda: {"busy": is_busy()}, renew_s=renew_s)
        self._watches: dict[str, Watch] = {}
        self._part: tuple[int, float] = (slots, 1.0)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look_regularly, name="gage-eval-limits", daemon=True)

    def start(self) -> None:
        """Take this run's part now, and follow the others from now on.

        Raises:
            StoreError: the store cannot be read or written.
        """
        self._beat.start()
        self._look()
        self._thread.start()

    def stop(self) -> None:
        """Leave the limits to the others."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
        self._beat.stop()
        with suppress(StoreError):
            self._objects.delete(self._path)

    def _look_regularly(self) -> None:
        while not self._end.wait(self._renew_s):
            try:
                self._look()
            except StoreError as error:
                # The last known part stays.
                _log.debug("the runs that share an endpoint could not be counted: %s", error)

    def _look(self) -> None:
        """Count the runs that send, and take this run's part."""
        paths = [item.path for item in self._objects.list(self._folder)]
        self._watches = {path: self._watches.get(path) or self._watch(path) for path in paths if path != self._path}
        sending = [self._path]
        for path, watch in self._watches.items():
            sign: dict[str, Any] | None = watch.look()
            if watch.is_gone:
                self._objects.delete(path)
            elif sign is not None and sign.get("busy"):
                sending.append(path)
        rank = sorted(sending).index(self._path)
        slots = self._slots // len(sending) + (rank < self._slots % len(sending))
        part = (slots, 1.0 / len(sending))
        if part != self._part:
            self._part = part
            self._apply(*part)

    def _watch(self, path: str) -> Watch:
        return Watch(self._objects, path, gone_s=2 * self._renew_s)
