"""What the write-ahead logs of an action hold."""

from collections.abc import Iterator
from pathlib import Path

from gage_eval.engine.wal import records, segments


def read_logs(folder: Path) -> Iterator[tuple[str, bytes]]:
    """(key, payload) of every whole record of a folder's segments."""
    for segment in segments(folder):
        for _, key, payload in records(segment):
            yield key.hex(), payload
