"""Answers in the log reach the store while a step runs, so that a lost machine costs only the latest ones.

A store of objects gets what was logged since the last time as a numbered segment. In a store of files the log is there
already.
"""

import logging

from gage_eval.base.errors import StoreError
from gage_eval.base.periodic import Periodic
from gage_eval.engine.wal import FIRST_RECORD, MAGIC, LogWriter
from gage_eval.store.wip import Wip

# Twice as often as answers may be lost: sending a segment takes time, too.
SHARE_EVERY_S = 5.0

_log = logging.getLogger(__name__)


class SharedLog:
    """Shares one writer's log in a separate thread, from `start` until `close`.

    Args:
        log: the log.
        wip: gets the segments.
    """

    def __init__(self, log: LogWriter, wip: Wip, *, every_s: float = SHARE_EVERY_S) -> None:
        self._log = log
        self._wip = wip
        # Segment of the log and offset up to which answers were shared, and the number of the next shared segment.
        self._shared = (0, FIRST_RECORD)
        self._number = 0
        self._sharing = Periodic(self._try, every_s, name="gage-eval-log")

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._sharing.is_started

    def start(self) -> None:
        """Share regularly from now on."""
        self._sharing.start()

    def close(self, *, finished: bool) -> None:
        """Stop sharing.

        Args:
            finished: every answer is in a committed chunk, so that the last ones need not be shared.
        """
        self._sharing.stop()
        if not finished:
            self._try()

    def share(self) -> None:
        """Share what was logged since the last time.

        Raises:
            StoreError: the store cannot be written; the next call tries again.
        """
        until = self._log.written
        if until == self._shared:
            return
        data = MAGIC + b"".join(self._read(self._shared, until))
        # A name that is taken is of a try that seemed to fail.
        while not self._wip.put_log(f"{self._log.writer_id}-s{self._number:05d}.log", data):
            self._number += 1
        self._number += 1
        self._shared = until

    def _read(self, start: tuple[int, int], until: tuple[int, int]) -> list[bytes]:
        """The records from one position of the log to another."""
        pieces = []
        for number in range(start[0], until[0] + 1):
            with self._log.segment(number).open("rb") as file:
                file.seek(start[1] if number == start[0] else FIRST_RECORD)
                pieces.append(file.read(until[1] - file.tell()) if number == until[0] else file.read())
        return pieces

    def _try(self) -> None:
        try:
            self.share()
        except (StoreError, OSError) as error:
            _log.debug("the log of answers could not be shared: %s", error)
