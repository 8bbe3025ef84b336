"""Unique ids of a dataset's samples, made from the content if records have none."""

from typing import Any, TypeAlias

import numpy as np

_Codes: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]


class SampleIds:
    """Makes and checks the ids of a dataset part by part. Takes 16 bytes per row, and 8 more for a row without an
    id."""

    def __init__(self) -> None:
        # Sorted runs, each at least twice as long as the next: few to search, and codes are rarely moved.
        self._runs: list[_Codes] = []
        self._repeated: dict[str, int] = {}
        self._hashes: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        self._lines: list[np.ndarray[Any, np.dtype[np.int64]]] = []

    def of_contents(self, contents: list[str]) -> list[str]:
        """Ids of records without one: the content's hash, plus a counter from its second occurrence on.

        Args:
            contents: `sample_record.content_id` of each record, 16 hex digits, in the dataset's order.
        """
        codes = np.fromiter((int(content, 16) for content in contents), np.uint64, len(contents))
        fresh, where = np.unique(codes, return_inverse=True)
        known = self._known(fresh)[where]
        self._keep(fresh)
        if len(fresh) == len(codes) and not known.any():
            return contents
        ids: list[str] = []
        here: set[str] = set()
        for content, before in zip(contents, known.tolist(), strict=True):
            count = self._repeated.get(content, int(before or content in here)) + 1
            here.add(content)
            if count > 1:
                self._repeated[content] = count
            ids.append(content if count == 1 else f"{content}-{count}")
        return ids

    def add(self, ids: list[str], lines: list[int]) -> None:
        """Add the ids of a part with their source lines."""
        self._hashes.append(np.fromiter((hash(i) for i in ids), np.int64, len(ids)))
        self._lines.append(np.asarray(lines, np.int64))

    def clash(self) -> tuple[int, int] | None:
        """Two source lines with the same id, or None. By 64-bit hashes: one false alarm in 10**7 sets of 1 M rows."""
        if not self._hashes:
            return None
        hashes, lines = np.concatenate(self._hashes), np.concatenate(self._lines)
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        if not len(same):
            return None
        pairs = sorted((int(lines[order[i]]), int(lines[order[i + 1]])) for i in same)
        first, second = pairs[0]
        return (first, second) if first < second else (second, first)

    def _known(self, codes: _Codes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Mask of the codes that an earlier part had."""
        known = np.zeros(len(codes), np.bool_)
        for run in self._runs:
            nearest = np.minimum(np.searchsorted(run, codes), len(run) - 1)
            known |= run[nearest] == codes
        return known

    def _keep(self, codes: _Codes) -> None:
        if not len(codes):
            return
        self._runs.append(codes)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")
            self._runs.append(merged)
