"""What keeps a store tidy: removal of what nothing needs, and a check of everything for damage."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gage_eval.base.errors import InputError
from gage_eval.report.console import counted, size_text
from gage_eval.runs.deployed import FindDeleted, forget_deployment
from gage_eval.runs.gc_roots import Roots, find_roots, forget_root
from gage_eval.runs.options import Locations
from gage_eval.store import Finding, GcReport, Store

DEFAULT_AGE = "30d"

_AGE = re.compile(r"(\d{1,9})\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True)
class GarbageCollection:
    """What `collect_garbage` removed, or would remove.

    Attributes:
        report: what was removed and kept.
        roots: the runs that were read, and those that are running.
    """

    report: GcReport
    roots: Roots

    @property
    def lines(self) -> list[str]:
        """The result in words."""
        report, roots = self.report, self.roots
        word = "would be removed" if report.dry_run else "removed"
        kept = counted(report.kept, "artifact")
        lines = [
            f"{counted(report.objects, 'object')}, {size_text(report.bytes)} {word}; {kept} kept "
            f"({counted(roots.runs, 'run')} in {', '.join(roots.folders)} read)."
        ]
        if roots.under_way:
            under_way = ", ".join(roots.under_way)
            lines.insert(0, f"Running: {under_way}. Nothing younger than the start of the oldest one is removed.")
        lines += [
            f"The nightly deployment '{record.deployment}' was deleted at {record.api}: "
            "its files are not kept any more."
            for record in roots.deleted
        ]
        if roots.unknown is not None:
            lines.append(f"The files of all nightly deployments are kept: {roots.unknown}")
        return lines


def collect_garbage(
    locations: Locations,
    *,
    min_age: str = DEFAULT_AGE,
    forget: str | None = None,
    find_deleted: FindDeleted | None = None,
    dry_run: bool = False,
) -> GarbageCollection:
    """Remove what no run and no baseline needs.

    Args:
        locations: the store, and where its runs are.
        min_age: keep everything younger, as `age_seconds` reads it.
        forget: a runs root that is gone for good: its runs keep nothing.
        find_deleted: finds recorded deployments that do not exist any more: they keep nothing.
        dry_run: remove nothing.

    Raises:
        InputError: the age cannot be read, or a runs root is missing.
        StoreError: the store cannot be opened.
    """
    age = age_seconds(min_age)
    Store.open(locations.store, read_only=True)  # an empty store is not created only for gc
    opened = Store.open(locations.store)
    roots = find_roots(opened, locations, gone=forget, find_deleted=find_deleted)
    if forget is not None and not dry_run:
        forget_root(opened, forget)
    if not dry_run:
        for record in roots.deleted:
            forget_deployment(opened, record)
    if roots.since is not None:
        age = max(age, time.time() - roots.since)
    report = opened.gc(
        roots.artifacts, unfinished=roots.unfinished, bundles=roots.bundles, dry_run=dry_run, min_age_s=age
    )
    return GarbageCollection(report, roots)


def verify_store(url: str, *, remove: bool = False) -> Sequence[Finding]:
    """Read everything in a store again. Returns what is damaged.

    Args:
        url: the store.
        remove: delete damaged objects; the next run computes them again.

    Raises:
        StoreError: the store cannot be opened.
    """
    return Store.open(url, read_only=not remove).verify(remove=remove)


def age_seconds(text: str) -> float:
    """The seconds of an age such as ``90s``, ``30m``, ``12h``, ``7d`` or ``4w``.

    Raises:
        InputError: it is not an age.
    """
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(
            f"--min-age '{text}' is not an age: give a number with a unit, such as 90s, 30m, 12h, 7d or 4w."
        )
    return float(int(match[1]) * _UNITS[match[2]])
