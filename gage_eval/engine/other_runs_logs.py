"""Answers in the logs of other actions on this machine, of runs that still run or were killed."""

import glob
import time
from array import array
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from gage_eval.engine.wal import FIRST_RECORD, LogIndex, positions_of
from gage_eval.models.client.types import Response

# Each lookup scans what was logged since the last one. Scans may take this share of the time.
_SHARE = 0.1
_SHORTEST_S = 2.0
# Larger logs are ignored: scanning them would cost more than it saves.
_MOST_BYTES = 2 * 2**30


class OtherRunsLogs:
    """Looks up keys in the logs of other actions. It reads files: call it in a thread.

    Args:
        own: the folder of the action's own logs. Its sibling folders hold those of other actions.
    """

    def __init__(self, own: Path) -> None:
        self._own = own
        self._root = own.parent.parent
        self._name = own.name
        # For each segment, its index in the list of files and the offset where the next scan starts.
        self._scanned: dict[Path, tuple[int, int]] = {}
        self._files: list[Path] = []
        self._keys, self._positions = bytearray(), array("q")
        self._bytes = 0
        self._index = LogIndex([], b"", array("q"))
        self._next_scan = 0.0
        self._lock = Lock()

    def find(self, keys: Iterable[str]) -> dict[str, Response]:
        """The answers to some keys that other actions have logged."""
        with self._lock:
            self._scan_when_due()
            index = self._index
        responses = {}
        for key in keys if len(index) else ():
            try:
                payload = index.get(key)
            except FileNotFoundError:
                continue  # its action has been committed
            if payload is not None:
                responses[key] = Response.from_bytes(payload)
        return responses

    def _scan_when_due(self) -> None:
        began = time.monotonic()
        if began < self._next_scan:
            return
        if self._scan():
            self._index = LogIndex(self._files, bytes(self._keys), self._positions)
        took = time.monotonic() - began
        self._next_scan = began + took + max(_SHORTEST_S, took / _SHARE)

    def _scan(self) -> bool:
        """Index what was logged since the last scan. Returns whether there was anything."""
        before = len(self._positions)
        # Unlike Path.glob, it passes over folders that are removed at this moment, because their action ends.
        for name in sorted(glob.glob(f"*/{self._name}/*.log", root_dir=self._root)):
            segment = self._root / name
            if segment.parent == self._own or self._bytes > _MOST_BYTES:
                continue
            try:
                self._scan_segment(segment)
            except OSError:
                continue  # removed since it was listed
        return len(self._positions) > before

    def _scan_segment(self, segment: Path) -> None:
        if segment not in self._scanned:
            self._scanned[segment] = len(self._files), FIRST_RECORD
            self._files.append(segment)
        number, start = self._scanned[segment]
        for key, position, end in positions_of(segment, number, start):
            self._keys += key
            self._positions.append(position)
            self._bytes += end - start
            start = end
            self._scanned[segment] = number, start
