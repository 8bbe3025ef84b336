"""Media of a run by URL, for an endpoint on this machine: it fetches bytes that each request would hold as base64."""

import asyncio
import hmac
import ipaddress
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import model_validator

from gage_eval.base.errors import GageError
from gage_eval.base.marks import scheduling
from gage_eval.base.ports import LOOPBACK
from gage_eval.models.backends.base import BackendConfig
from gage_eval.models.client.http_server import HTTPRequest, HTTPServer, Refusal, Reply
from gage_eval.models.client.route import UNIX
from gage_eval.store.media import MEDIA_SCHEME, media_url
from gage_eval.store.media_types import media_type as type_of

BY_URL = frozenset({"image_url", "audio_url", "video_url"})
"""The types of segments that have an address."""

_LARGEST_REQUEST = 1 << 14
_CONNECTIONS = 512
# Longer than clients keep a connection that they no longer use.
_IDLE_S = 60.0
_FLAGS = 1 << 20


class MediaConfig(BackendConfig):
    """The field of backends whose requests may name media by URL."""

    media_source: Literal["base64", "url", "store"] = scheduling(
        "base64",
        description="How media are sent: in requests, or by URLs from which the endpoint fetches them: `url` of this "
        "machine, for an endpoint on it, or `store` of the server of a store on S3.",
    )

    @model_validator(mode="after")
    def _urls_are_of_this_machine(self) -> "MediaConfig":
        address = getattr(self, "base_url", None)
        if self.media_source == "url" and address is not None and not _is_here(address):
            raise ValueError(
                "media_source: url serves media on the loopback address, which only an endpoint on this machine "
                "reaches: remove it, set media_source: store for a store on S3, or set base_url to one on this machine "
                "(http://127.0.0.1:…)"
            )
        return self


class MediaLinks(Protocol):
    """Gives media URLs."""

    def url(self, kind: str, medium: str, media_type: str | None) -> str | None:
        """The URL of a medium, ``media://sha256/…``; None for a type of segment that has none."""


@dataclass(frozen=True)
class StoreLinks:
    """URLs of the store's server.

    Attributes:
        link: makes one, of a medium and its type.
        kinds: the types of segments whose media go by URL.
    """

    link: Callable[[str, str | None], str]
    kinds: frozenset[str]

    def url(self, kind: str, medium: str, media_type: str | None) -> str | None:
        """See `MediaLinks`."""
        return self.link(medium, media_type) if kind in self.kinds else None


class MediaServer:
    """Serves the media that a run sends, on the loopback address, from `open` to `close`.

    A URL is sealed: it is made for one medium, and no other URL can be made from it. Nothing is listed.

    Args:
        media: the bytes of a ``media://`` URL.
        kinds: the types of segments whose media go by URL.

    Attributes:
        token: a part of all URLs, to be masked where an endpoint repeats one.
        failure: why a medium could not be read; None if all could.
    """

    def __init__(self, media: Callable[[str], bytes], kinds: frozenset[str]) -> None:
        self.token = secrets.token_urlsafe(24)
        self.failure: GageError | None = None
        self._media, self._kinds = media, kinds
        self._key = secrets.token_bytes(32)
        # By the first digits of their hashes, so that a run of any size takes as little: a medium whose flag another
        # one has set counts as fetched.
        self._fetched = bytearray(_FLAGS)
        self._server = HTTPServer(self._answer, largest=_LARGEST_REQUEST, connections=_CONNECTIONS, idle_s=_IDLE_S)
        self._listening: asyncio.Server | None = None
        self._origin = ""

    async def open(self) -> None:
        """Listen at a free port."""
        self._listening = await asyncio.start_server(self._server.converse, LOOPBACK, 0)
        self._origin = f"http://{LOOPBACK}:{self._listening.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """End all connections, and listen no longer."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
            self._server.close()

    def url(self, kind: str, medium: str, media_type: str | None) -> str | None:
        """See `MediaLinks`."""
        if kind not in self._kinds:
            return None
        return self._origin + self._path(medium.rpartition("/")[2], media_type or "")

    def all_fetched(self, messages: Iterable[Mapping[str, Any]]) -> bool:
        """Whether each medium that the messages name by URL was fetched in this run."""
        parts = [
            part for message in messages if isinstance(message.get("content"), list) for part in message["content"]
        ]
        urls = [part[part["type"]].get("url") for part in parts if part.get("type") in self._kinds]
        return all(self._fetched[_flag(url)] for url in urls if url is not None and url.startswith(MEDIA_SCHEME))

    def _path(self, name: str, media_type: str) -> str:
        seal = hmac.new(self._key, f"{name}/{media_type}".encode(), sha256).hexdigest()
        return f"/{self.token}/{seal}/{name}/{media_type}"

    async def _answer(self, request: HTTPRequest) -> Reply:
        name, _, media_type = "/".join(request.target.split("/")[3:]).partition("/")
        expected = self._path(name, media_type)
        if not hmac.compare_digest(expected.encode(), request.target.encode()) or request.method not in ("GET", "HEAD"):
            raise Refusal(404, "nothing is here")
        url = media_url(name)
        try:
            data = await asyncio.to_thread(self._media, url)
        except GageError as error:
            self.failure = error
            raise Refusal(404, "the medium cannot be read") from None
        if request.method == "GET":
            self._fetched[_flag(url)] = 1
        return Reply(200, data, media_type or type_of(data))


def _flag(url: str) -> int:
    return int(url[-5:], 16)


def _is_here(base_url: str) -> bool:
    parts = urlsplit(base_url)
    if parts.scheme == UNIX or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
