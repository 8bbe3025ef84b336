"""Media of samples (images, audio and other bytes) by digest. Rows hold ``media://sha256/…``, never the data."""

import re
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import ArtifactDamaged, InputError, StoreError
from gage_eval.store.media_types import media_type as type_of
from gage_eval.store.objects import Objects
from gage_eval.store.s3 import S3Objects

MEDIA_SCHEME = "media://"
MEDIA_URL = re.compile(rb"%bsha256/([0-9a-f]{64})" % MEDIA_SCHEME.encode())
_AUTO_THREADS = 8
_REMEMBERED = 32_768
# Longer than a request waits.
_LINK_S = 86_400
# Bytes that tell the type of a medium.
_START = 512

Keep: TypeAlias = Callable[[bytes], str]
"""Stores bytes, now or by the end of the stage, and returns their address, ``media://sha256/…``."""


class Media:
    """The media of a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def put(self, data: bytes) -> str:
        """Store the bytes; equal bytes are stored once.

        Returns:
            Their URL, ``media://sha256/<64 hex digits>``.
        """
        name = sha256_hex(data)
        self._put(name, data)
        return media_url(name)

    def has(self, url: str) -> bool:
        """Whether the store has the bytes of a URL; `get` checks them.

        Raises:
            StoreError: not a media URL.
        """
        return self._objects.exists(media_path(_name(url)))

    def keeper(self, threads: int = 0) -> "MediaKeeper":
        """A keeper that stores media in parallel; a context manager.

        Args:
            threads: number of threads; 0 for the default.
        """
        return MediaKeeper(self._objects, threads or _AUTO_THREADS)

    def path(self, url: str) -> Path | None:
        """The file with the bytes of a URL; None where the store is not a folder.

        Raises:
            StoreError, ArtifactDamaged: as `get`.
        """
        if self._objects.local_root is None:
            return None
        self.get(url)
        return (self._objects.local_root / media_path(url.rpartition("/")[2])).absolute()

    def link(self, url: str, media_type: str | None) -> str:
        """A URL of the store's server, at which anybody who has it can read the medium for a day.

        Args:
            url: of the medium.
            media_type: which type the server is to say; None to find it out from the first bytes.

        Raises:
            InputError: the store is a folder.
            StoreError: as `get`.
        """
        path = media_path(_name(url))
        if not isinstance(self._objects, S3Objects):
            raise InputError(
                f"media_source: store needs a store on S3, and {self._objects.url} is a folder: set media_source: url "
                "for an endpoint on this machine, or remove it."
            )
        try:
            known = media_type or type_of(self._objects.get_range(path, 0, _START))
        except FileNotFoundError:
            raise self._gone(url) from None
        return self._objects.link(path, known, _LINK_S)

    def get(self, url: str) -> bytes:
        """Read the bytes of a URL.

        Raises:
            StoreError: not a media URL, or the store does not have it.
            ArtifactDamaged: the stored bytes are not those that were put.
        """
        name = _name(url)
        try:
            data = self._objects.get(media_path(name))
        except FileNotFoundError:
            raise self._gone(url) from None
        actual = sha256_hex(data)
        if actual != name:
            raise ArtifactDamaged(
                f"{media_path(name)} has sha256 {actual}; `gage cache verify --remove` deletes it, and a run "
                "with `--refresh preprocess` stores it again."
            )
        return data

    def _gone(self, url: str) -> StoreError:
        return StoreError(f"{url} is gone from store {self._objects.url}: run preprocess again with --refresh.")

    def _put(self, name: str, data: bytes) -> None:
        path = media_path(name)
        while not self._objects.create(path, data) and not self._objects.renew(path):
            continue  # collected in between


class MediaKeeper(Media):
    """Stores media in threads while the caller continues. An address depends only on the bytes, so it is known at once.

    Leave the block before you commit rows that name the media: the block ends when all of them are stored.

    Raises:
        StoreError: one of them could not be stored. A later `put` or the end of the block raises it.
    """

    def __init__(self, objects: Objects, threads: int) -> None:
        super().__init__(objects)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="media")
        self._most = 2 * threads
        self._under_way: deque[Future[None]] = deque()
        self._known: dict[str, bool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._wait(0)
        finally:
            self._pool.shutdown(cancel_futures=True)

    def put(self, data: bytes) -> str:
        """The URL of bytes that are stored when the block ends. Waits while too many writes are in flight."""
        self._wait(self._most - 1)
        if len(self._known) >= _REMEMBERED:
            self._wait(0)
            self._known.clear()
        name = sha256_hex(data)
        self._under_way.append(self._pool.submit(self._put, name, data))
        url = media_url(name)
        self._known[url] = True
        return url

    def look(self, urls: Iterable[str]) -> None:
        """Check several media in parallel, ahead of `has`. Forgets what is known of others."""
        self._wait(0)
        requested = list(urls)
        self._known = dict(zip(requested, self._pool.map(super().has, requested), strict=True))

    def has(self, url: str) -> bool:
        """Whether the store has the bytes of a URL, or will have them when the block ends.

        Raises:
            StoreError: not a media URL.
        """
        known = self._known.get(url)
        return super().has(url) if known is None else known

    def _wait(self, left: int) -> None:
        """Wait until at most ``left`` writes are in flight."""
        while len(self._under_way) > left:
            self._under_way.popleft().result()


def urls_in(texts: pa.ChunkedArray) -> set[str]:
    """The URLs of stored media that the texts of a column hold."""
    naming = texts.filter(pc.match_substring(texts, MEDIA_SCHEME)).to_pylist()
    return {match[0].decode() for text in naming for match in MEDIA_URL.finditer(text.encode())}


def media_url(name: str) -> str:
    """The URL of a medium by its sha256."""
    return f"{MEDIA_SCHEME}sha256/{name}"


def _name(url: str) -> str:
    match = MEDIA_URL.fullmatch(url.encode())
    if match is None:
        raise StoreError(f"'{url[:100]}' is not a media URL: one is media://sha256/ and 64 hex digits.")
    return match[1].decode()


def media_path(name: str) -> str:
    """The path of the media with that digest."""
    return f"media/sha256/{name[:2]}/{name}"
