"""The choice of rows of a source, and their order."""

import hashlib
import heapq
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter

from gage_eval.data.datasets.base import Record

_IN_MEMORY = 32 * 1024 * 1024


def reservoir(records: Iterable[Record], size: int, seed: int) -> Iterator[Record]:
    """Draw ``size`` random records and keep the source's order. Smaller sources are returned whole.

    Records with the smallest hash of (seed, text) are drawn. So the choice depends only on the records' content, not
    on their order, and a smaller sample is part of a larger one. Memory holds only the sample.
    """
    # The largest rank is on top; a smaller one replaces it.
    drawn: list[tuple[int, int, Record]] = []
    for position, (line, text) in enumerate(records):
        data = f"{seed}:{text}".encode("utf-8", "surrogatepass")
        entry = (-int.from_bytes(hashlib.sha256(data).digest()[:16]), position, (line, text))
        if len(drawn) < size:
            heapq.heappush(drawn, entry)
        elif entry[0] > drawn[0][0]:
            heapq.heapreplace(drawn, entry)
    return (record for _, _, record in sorted(drawn, key=itemgetter(1)))


def select(
    records: Iterable[Record], limit: int | None = None, shuffle: bool = False, seed: int = 0
) -> Iterator[Record]:
    """The first ``limit`` records, in the source's order or in a seeded one.

    The seeded order sorts by a hash of (seed, position). It depends neither on Python's random numbers nor on the
    number of rows, so a smaller limit takes a prefix of a larger one. Memory holds only the rows within the limit;
    a whole set is shuffled through a temporary file.

    Raises:
        ValueError: the limit is negative.
    """
    if limit is not None and limit < 0:
        raise ValueError("limit must not be negative")
    if not shuffle:
        # `islice` counts no further than an index can.
        return islice(records, None if limit is None else min(limit, sys.maxsize))
    if limit is not None:
        return _smallest(records, limit, seed)
    return _sorted_on_disk(records, seed)


def _rank(seed: int, position: int) -> bytes:
    return hashlib.sha256(f"{seed}:{position}".encode()).digest()[:16]


def _smallest(records: Iterable[Record], limit: int, seed: int) -> Iterator[Record]:
    ranked = ((_rank(seed, position), record) for position, record in enumerate(records))
    return (record for _, record in heapq.nsmallest(limit, ranked, key=itemgetter(0)))


def _sorted_on_disk(records: Iterable[Record], seed: int) -> Iterator[Record]:
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        lines: list[tuple[bytes, int, int, int]] = []
        offset = 0
        for position, (line, text) in enumerate(records):
            data = text.encode("utf-8", "surrogatepass")
            file.write(data)
            lines.append((_rank(seed, position), line, offset, len(data)))
            offset += len(data)
        lines.sort()
        for _, line, start, length in lines:
            file.seek(start)
            yield line, file.read(length).decode("utf-8", "surrogatepass")
