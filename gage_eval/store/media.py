"""Images, audio and other bytes of samples by digest: rows hold ``media://sha256/…``, never the data."""

import re
from pathlib import Path

from gage_eval.canonical import sha256_hex
from gage_eval.errors import ArtifactDamaged, StoreError
from gage_eval.store.objects import Objects

MEDIA_URL = re.compile(rb"media://sha256/([0-9a-f]{64})")


class Media:
    """The media of a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def put(self, data: bytes) -> str:
        """Keep the bytes; equal bytes are kept once.

        Returns:
            Their URL, ``media://sha256/<64 hex digits>``.
        """
        name = sha256_hex(data)
        path = media_path(name)
        while not self._objects.create(path, data) and not self._objects.renew(path):
            continue  # collected in between
        return f"media://sha256/{name}"

    def path(self, url: str) -> Path | None:
        """The file that holds the bytes of a URL; None where the store has no folder.

        Raises:
            StoreError, ArtifactDamaged: as `get`.
        """
        if self._objects.local_root is None:
            return None
        self.get(url)
        return (self._objects.local_root / media_path(url.rpartition("/")[2])).absolute()

    def get(self, url: str) -> bytes:
        """The bytes of a URL.

        Raises:
            StoreError: no media URL, or the store does not have it.
            ArtifactDamaged: the stored bytes are not those that were put.
        """
        match = MEDIA_URL.fullmatch(url.encode())
        if match is None:
            raise StoreError(f"'{url[:100]}' is no media URL: one is media://sha256/ and 64 hex digits.")
        name = match[1].decode()
        try:
            data = self._objects.get(media_path(name))
        except FileNotFoundError:
            raise StoreError(
                f"{url} is gone from store {self._objects.url}: run preprocess again with --refresh."
            ) from None
        found = sha256_hex(data)
        if found != name:
            raise ArtifactDamaged(
                f"{media_path(name)} has sha256 {found}; `gage cache verify --remove` deletes it, and a run "
                "with `--refresh preprocess` stores it again."
            )
        return data


def media_path(name: str) -> str:
    """Where the media of that digest lie."""
    return f"media/sha256/{name[:2]}/{name}"
