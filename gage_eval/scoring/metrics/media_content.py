"""The bytes of media that metrics compare: what a model made, from the store, and references, from the data."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gage_eval.data.prepare.media import MediaRules, file_content
from gage_eval.data.prepare.remote import REMOTE
from gage_eval.data.sample.record import RecordRejected

_read: ContextVar[Callable[[str], bytes] | None] = ContextVar("read", default=None)


@contextmanager
def media_from(read: Callable[[str], bytes]) -> Iterator[None]:
    """Context in which `content` reads addresses so. Outside of it, only ``data:`` URLs can be read."""
    token = _read.set(read)
    try:
        yield
    finally:
        _read.reset(token)


def content(address: str) -> bytes:
    """The bytes at an address: of a stored medium, a file of the dataset, or a ``data:`` URL.

    Raises:
        RecordRejected: there are none, or they may not be read.
        StoreError: the store no longer has them.
    """
    if address.startswith(REMOTE):
        raise RecordRejected("what is compared here must be here: download it, and name the file.")
    read = _read.get()
    return file_content(address, MediaRules()) if read is None else read(address)


def address_of(files: Mapping[str, Any]) -> str | None:
    """The address of the one file that an answer holds; None where it holds none or several.

    Args:
        files: as ``artifacts.files`` of `tables.RESPONSES`.
    """
    addresses = [file.get("url") for file in files.values() if isinstance(file, Mapping)]
    return addresses[0] if len(addresses) == 1 and isinstance(addresses[0], str) else None
