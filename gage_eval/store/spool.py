"""The files that a store needs on this machine's disk: files being written, and logs that are appended to.

They are inside the store when it is local, else in the user's cache folder (``$XDG_CACHE_HOME``), because an S3 object
cannot be appended to or written piece by piece.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gage_eval.base.canonical import sha256_hex
from gage_eval.store.objects import LocalObjects, ObjectInfo, Objects


def spool(objects: Objects, area: str) -> Path:
    """The folder of this machine for an area of a store, such as ``staging``."""
    if objects.local_root is not None:
        return objects.local_root / area
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "gage-eval" / area / sha256_hex(objects.url.rstrip("/").encode())[:16]


def spooled(objects: Objects, area: str) -> Iterator[ObjectInfo]:
    """Every file that this machine keeps for an area of a remote store. A local store lists its own files."""
    if objects.local_root is not None:
        return
    # Like a store, because runs of this machine write and remove files there at the same time.
    for item in LocalObjects(spool(objects, area), objects.url).list():
        yield replace(item, path=f"{area}/{item.path}")


def discard_spooled(objects: Objects, area: str, name: str) -> None:
    """Remove a folder of this machine."""
    shutil.rmtree(spool(objects, area) / name, ignore_errors=True)
