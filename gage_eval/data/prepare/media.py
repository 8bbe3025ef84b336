"""Media of messages: resolved, read, checked, and stored by hash.

Rows never hold data. A path or a ``data:`` URL becomes ``media://sha256/<hex>``; an ``http(s)://`` address is fetched
if what is there is to be decoded, and not changed otherwise. All addresses are treated as hostile, because they come
from the data.
"""

import base64
import binascii
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue, digest, sha256_hex
from gage_eval.base.hashing import file_digest
from gage_eval.data.prepare.documents import DocumentRules, is_pdf, page_images, page_text, pdfium_version
from gage_eval.data.prepare.images import ImageRules, Picture, pillow_version, prepared
from gage_eval.data.prepare.recordings import RecordingRules, av_version, resampled
from gage_eval.data.prepare.remote import REMOTE, FetchFailed, PrivateHosts, fetched
from gage_eval.data.prepare.videos import VideoFrame, VideoRules, sampled
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import MEDIA_TYPES
from gage_eval.store import Artifact
from gage_eval.store.media import MEDIA_SCHEME, MEDIA_URL, Media
from gage_eval.store.media_types import JPEG_FRAMES, is_media_type, media_type

MAX_BYTES = 512 * 2**20
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://")
_DATA = "data:"
_SHOWN = 80
_MAX_HEAD = 200
_AUTO_THREADS = 4
_REMEMBERED = 32_768
_MOST_FAILED = 3


@dataclass(frozen=True)
class MediaRules:
    """The location of media and how they are treated.

    Attributes:
        root: folder that relative paths start from; None where the data have no folder. A place, so it is not in keys.
        allow_outside: whether a path may lead out of the folder.
        embed: whether to send data even to backends that can read files.
        images: sizes of images.
        documents: how PDF files are sent; None to pass them on unread.
        recordings: how recordings are resampled; None to pass them on unread.
        videos: which frames of videos are sent; None to pass them on unread.
        private_hosts: hosts and networks that are not public, and that media may be fetched from.
    """

    root: Path | None = None
    allow_outside: bool = False
    embed: bool = False
    images: ImageRules = field(default_factory=ImageRules)
    documents: DocumentRules | None = None
    recordings: RecordingRules | None = None
    videos: VideoRules | None = None
    private_hosts: tuple[str, ...] = ()

    def material(self) -> JsonValue:
        """The values that determine rows; the files' content is in `files_identity`."""
        recipes = {"documents": self.documents, "recordings": self.recordings, "videos": self.videos}
        return {
            "allow_outside": self.allow_outside,
            "embed": self.embed,
            "images": self.images.material(),
            **{name: rules.material() for name, rules in recipes.items() if rules is not None},
            **({"private_hosts": sorted(self.private_hosts)} if self.private_hosts else {}),
        }

    def decodes(self, kind: str) -> bool:
        """Whether media of that type of segment are changed before they are sent, so that they must be here."""
        recipes = {"audio_url": self.recordings, "file_url": self.documents, "video_url": self.videos}
        return self.images.resizes if kind == "image_url" else recipes.get(kind) is not None


@dataclass(frozen=True, slots=True)
class Medium:
    """A segment that an address becomes.

    Attributes:
        kind: the type of the segment.
        url: the URL that rows hold; of a text the text itself.
        meta: its entry in ``media_meta``; empty for a text.
        media_type: type of the file, where its content alone may not show it; None for images and unstored media.
    """

    kind: str
    url: str
    meta: Mapping[str, JsonValue] = field(default_factory=dict)
    media_type: str | None = None

    def segment(self, of: Mapping[str, Any]) -> dict[str, Any]:
        """The segment in place of one of the data."""
        if self.kind == "text":
            return {"type": "text", "text": self.url}
        # What the data say of a file does not hold of the images of its pages.
        told = of[of["type"]] if of["type"] == self.kind else {}
        # Only a recipe makes frames.
        holder = {**{name: value for name, value in told.items() if name != "frames"}, "url": self.url}
        if self.media_type is not None and not is_media_type(holder.get("media_type")):
            holder["media_type"] = self.media_type
        return {**(of if of["type"] == self.kind else {"type": self.kind}), self.kind: holder}


class MediaReader:
    """Resolves the media of messages for one folder; each address is read once.

    Args:
        rules: location and treatment of media.
        store: where they are stored.
        threads: number of reader threads; 0 for the default.
    """

    def __init__(self, rules: MediaRules, store: Media, *, threads: int = 0) -> None:
        self._rules = rules
        self._store = store
        self._threads = threads or _AUTO_THREADS
        self._private = PrivateHosts(rules.private_hosts)
        self._known: dict[tuple[str, str], tuple[Medium, ...] | RecordRejected] = {}
        # Addresses of a server that failed since the last one that did not.
        self._failed: Counter[str] = Counter()

    def read(self, conversations: Iterable[list[dict[str, Any]]]) -> None:
        """Read all media of some conversations in parallel, ahead of `resolve`."""
        if sum(len(media) if isinstance(media, tuple) else 1 for media in self._known.values()) > _REMEMBERED:
            self._known.clear()
        new = {
            address: None
            for messages in conversations
            for address in media_in_messages(messages)
            if address not in self._known
        }
        if len(new) == 1 or self._threads == 1:
            self._known.update((address, self._work(address)) for address in new)
        elif new:
            with ThreadPoolExecutor(self._threads, thread_name_prefix="media") as pool:
                self._known.update(zip(new, pool.map(self._work, new), strict=True))

    def resolve(self, messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[JsonValue]]:
        """The messages with stored media, and the ``media_meta`` of the media in them, each once.

        Raises:
            FetchFailed: a server did not answer that may answer another time.
            RecordRejected: a medium is missing, broken or out of bounds.
        """
        meta: list[Mapping[str, JsonValue]] = []
        out = []
        for message in messages:
            content = message.get("content")
            if type(content) is not list or all(segment["type"] == "text" for segment in content):
                out.append(message)
                continue
            segments = []
            for segment in content:
                kind = segment["type"]
                if kind == "text":
                    segments.append(segment)
                    continue
                media = self._media((kind, segment[kind]["url"]))
                meta.extend(medium.meta for medium in media if medium.meta)
                if kind == "video_url" and self._rules.videos is not None and self._rules.videos.form == "video":
                    segments.append(_video_of(media))
                else:
                    segments.extend(medium.segment(segment) for medium in media)
            out.append({**message, "content": segments})
        return out, each_once(meta)

    def _media(self, address: tuple[str, str]) -> tuple[Medium, ...]:
        if address not in self._known:
            self._known[address] = self._work(address)
        media = self._known[address]
        if isinstance(media, RecordRejected):
            raise type(media)(media.reason)
        return media

    def _work(self, address: tuple[str, str]) -> tuple[Medium, ...] | RecordRejected:
        """The stored media of an address, or why there are none."""
        kind, url = address
        try:
            return self._stored(kind, url)
        except RecordRejected as error:
            return type(error)(f"{kind} '{shown(url)}': {error.reason}")

    def _stored(self, kind: str, url: str) -> tuple[Medium, ...]:
        rules = self._rules
        if not url.startswith(REMOTE):
            return self._made(kind, url, self.content(url))
        if not rules.decodes(kind):
            return (Medium(kind, url, {"url": url, "type": kind}),)
        data = self._fetched(url)
        # What was there is kept too: it may not be there again.
        source = self._store.put(data)
        made = self._made(kind, urlsplit(url).path, data)
        return tuple(
            replace(medium, meta={**medium.meta, "source": source}) if medium.meta else medium for medium in made
        )

    def _fetched(self, url: str) -> bytes:
        """The bytes at an address. A server that did not answer several times is not asked again by this reader."""
        server = url.split("/", 3)[2]
        if self._failed[server] >= _MOST_FAILED:
            raise FetchFailed("its server did not answer before; the next run tries again.")
        try:
            data = fetched(url, self._private)
        except FetchFailed:
            self._failed[server] += 1
            raise
        self._failed[server] = 0
        return data

    def _made(self, kind: str, url: str, data: bytes) -> tuple[Medium, ...]:
        """The stored media of some content, by the rules. The address tells the type that the content does not."""
        rules = self._rules
        if kind == "image_url":
            return (self._image(data, url),)
        if rules.recordings is not None and kind == "audio_url":
            made = resampled(data, rules.recordings)
            return (self._kept(kind, made.data, None, "audio/wav", {"seconds": round(made.seconds, 3)}),)
        if rules.documents is not None and kind == "file_url" and is_pdf(data):
            if rules.documents.form == "text":
                return (Medium("text", page_text(data, rules.documents)),)
            return tuple(self._image(page, "") for page in page_images(data, rules.documents))
        if rules.videos is not None and kind == "video_url":
            return self._frames(data, rules.videos)
        mime = media_type(data, "" if url.startswith((MEDIA_SCHEME, _DATA)) else url)
        return (self._kept(kind, data, url, mime, {}),)

    def _image(self, data: bytes, url: str) -> Medium:
        picture = prepared(data, self._rules.images)
        return self._picture(picture, url if picture.data is data else None, {})

    def _frames(self, data: bytes, rules: VideoRules) -> tuple[Medium, ...]:
        video = sha256_hex(data)

        def keep(frame: VideoFrame) -> Medium:
            facts = {"video": video, "frame": frame.index, "seconds": frame.seconds}
            return self._picture(frame.picture, None, facts)

        frames = sampled(data, rules, self._rules.images, keep)
        if not rules.times:
            return tuple(frames)
        # As Qwen3-VL's processor writes them.
        texts = (Medium("text", f"<{frame.meta['seconds']:.1f} seconds>") for frame in frames)
        return tuple(chain.from_iterable(zip(texts, frames, strict=True)))

    def _picture(self, picture: Picture, url: str | None, facts: Mapping[str, JsonValue]) -> Medium:
        sized = {"width": picture.width, "height": picture.height, **facts}
        return replace(self._kept("image_url", picture.data, url, picture.media_type, sized), media_type=None)

    def _kept(self, kind: str, data: bytes, url: str | None, mime: str, facts: Mapping[str, JsonValue]) -> Medium:
        """The stored medium; bytes that came from the store are not stored again."""
        kept = url if url is not None and url.startswith(MEDIA_SCHEME) else self._store.put(data)
        meta = {"url": kept, "type": kind, "bytes": len(data), "media_type": mime, **facts}
        return Medium(kind, kept, meta, mime)

    def content(self, url: str) -> bytes:
        """The bytes behind an address in the data: of a ``data:`` URL, a stored medium, or a file.

        Raises:
            RecordRejected: it cannot be read, or may not be.
        """
        return self._store.get(url) if url.startswith(MEDIA_SCHEME) else file_content(url, self._rules)


def _video_of(frames: Sequence[Medium]) -> dict[str, Any]:
    """A segment whose data URL has all frames, as vLLM takes them. It names the first one as its URL."""
    urls = [frame.url for frame in frames]
    return {"type": "video_url", "video_url": {"url": urls[0], "media_type": JPEG_FRAMES, "frames": urls}}


def each_once(media: Iterable[Mapping[str, JsonValue]]) -> list[JsonValue]:
    """Entries of ``media_meta`` without repetitions. Frames of a video may look the same, and each has an entry."""
    return list({(entry["url"], entry.get("video"), entry.get("frame")): dict(entry) for entry in media}.values())


def file_content(url: str, rules: MediaRules) -> bytes:
    """The bytes behind an address in the data: of a ``data:`` URL, or a file.

    Raises:
        RecordRejected: it cannot be read, or may not be.
    """
    if url.startswith(_DATA):
        return data_of(url)
    try:
        return local_file(url, rules).read_bytes()
    except OSError as error:
        raise RecordRejected(f"it cannot be read ({error.strerror}).") from None


def local_file(url: str, rules: MediaRules) -> Path:
    """The file that a path in the data refers to.

    Raises:
        RecordRejected: it is not a regular file, too large, or outside of the folder (symbolic links resolved).
    """
    address = _SCHEME.match(url)
    scheme = address[1].lower() if address else ""
    if scheme == "file":
        url = unquote(url[len("file://") :])
    elif scheme:
        raise RecordRejected(f"media can be files, data: URLs or http(s):// addresses, not {scheme}://.")
    if rules.root is None and not (rules.allow_outside and Path(url).is_absolute()):
        raise RecordRejected("a path needs a folder to start from: set content_root in the dataset's params.")
    try:
        path = ((rules.root or Path("/")) / url).resolve()
        if not rules.allow_outside and (rules.root is None or not path.is_relative_to(rules.root.resolve())):
            raise RecordRejected("it leads out of content_root; set allow_outside: true to allow it.")
        status = path.stat()
    except FileNotFoundError:
        raise RecordRejected("the file does not exist in content_root.") from None
    # A NUL byte, a name that is too long, or a link to itself.
    except (OSError, ValueError, RuntimeError):
        raise RecordRejected("it is not a path to a file.") from None
    if not stat.S_ISREG(status.st_mode):
        raise RecordRejected("it is not a file.")
    if status.st_size > MAX_BYTES:
        raise RecordRejected(f"the file has {status.st_size:,} bytes; the limit is {MAX_BYTES:,}.")
    return path


def data_of(url: str) -> bytes:
    """The bytes of a ``data:`` URL (RFC 2397).

    Raises:
        RecordRejected: it has no comma, or its base64 is broken.
    """
    head, comma, body = url.partition(",")
    if not comma:
        raise RecordRejected("a data: URL needs a comma before its data.")
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(unquote(body).encode(), validate=True)
    except (binascii.Error, ValueError):
        raise RecordRejected("the base64 of the data: URL is broken.") from None


def without_data_urls(messages: list[dict[str, Any]], store: Media) -> list[dict[str, Any]]:
    """The messages with the data of ``data:`` URLs moved to the store, because rows hold no data.

    Raises:
        RecordRejected: a ``data:`` URL is broken, or the messages name a stored medium that this store does not have.
    """
    if not any(map(_holds_data, messages)):
        return messages
    out = []
    for message in messages:
        if not _holds_data(message):
            out.append(message)
            continue
        segments = []
        for segment in message["content"]:
            kind = segment["type"]
            url = "" if kind == "text" else segment[kind]["url"]
            if url.startswith(_DATA):
                holder = {**segment[kind], "url": store.put(data_of(url))}
                media_type = url.removeprefix(_DATA).partition(",")[0].partition(";")[0]
                if kind != "image_url" and is_media_type(media_type):
                    holder.setdefault("media_type", media_type)
                segments.append({**segment, kind: holder})
            else:
                segments.append(segment)
                if url.startswith(MEDIA_SCHEME):
                    _check_stored(url, store)
        out.append({**message, "content": segments})
    return out


def without_data(value: Any, store: Media) -> Any:
    """A JSON value with the data of whole ``data:`` URLs moved to the store; a broken URL stays text."""
    if type(value) is str:
        head = value[:_MAX_HEAD].partition(",")[0] if value.startswith(_DATA) else ""
        if not head.lower().endswith(";base64"):
            return value
        try:
            return store.put(data_of(value))
        except RecordRejected:
            return value
    if type(value) is dict:
        return {key: without_data(item, store) for key, item in value.items()}
    if type(value) is list:
        return [without_data(item, store) for item in value]
    return value


def _check_stored(url: str, store: Media) -> None:
    if MEDIA_URL.fullmatch(url.encode()) is None:
        raise RecordRejected("a stored medium is written as media://sha256/ and 64 hex digits.")
    if not store.has(url):
        raise RecordRejected(f"{url} is not in this store.")


def _holds_data(message: Mapping[str, Any]) -> bool:
    """Whether a segment has a ``data:`` URL or names a stored medium. Called for every message of a dataset."""
    content = message.get("content")
    if type(content) is not list:
        return False
    for segment in content:
        kind = segment["type"]
        if kind != "text" and segment[kind]["url"].startswith((_DATA, MEDIA_SCHEME)):
            return True
    return False


def media_in_messages(messages: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """(segment type, address) of every medium of some messages."""
    for message in messages:
        content = message.get("content")
        if type(content) is list:
            for segment in content:
                kind = segment["type"]
                if kind in MEDIA_TYPES:
                    yield kind, segment[kind]["url"]


def media_of(samples: pa.Table) -> list[tuple[str, str]]:
    """(segment type, address) of all media in the messages and few-shot examples of samples, each once, sorted."""
    few_shot = [chunk.flatten().field("messages") for chunk in samples["few_shot_examples"].chunks]
    addresses: set[tuple[str, str]] = set()
    for messages in [*samples["messages"].chunks, *few_shot]:
        segments = messages.flatten().field("content").flatten()
        urls = segments.field("url")
        if urls.null_count < len(urls):
            named = pc.is_valid(urls)
            kinds = segments.field("type").filter(named).to_pylist()
            addresses.update(zip(kinds, urls.filter(named).to_pylist(), strict=True))
    return sorted(addresses)


def media_in(samples: Artifact) -> list[tuple[str, str]]:
    """`media_of` a whole artifact of samples; costs nothing where standardize counted no media."""
    if not samples.counts.get("media"):
        return []
    addresses: set[tuple[str, str]] = set()
    for table in samples.tables(columns=["messages", "few_shot_examples"]):
        addresses.update(media_of(table))
    return sorted(addresses)


def files_identity(media: Iterable[tuple[str, str]], rules: MediaRules) -> JsonValue:
    """The content of the files behind some media, and the versions of what decodes them; None for neither.

    A file counts by its content, not by its place. An unusable file counts as missing, because its row is rejected.
    The digests of large files are cached (`gage_eval.base.hashing.file_digest`).

    Raises:
        InputError: there are media to decode, and the package for it is not installed.
    """
    contents: list[str | None] = []
    images = False
    decoders: dict[str, JsonValue] = {}
    for kind, url in media:
        if url.startswith(REMOTE):
            if not rules.decodes(kind):
                continue
            decoders["fetched"] = 1
        images = images or kind == "image_url"
        is_video = kind == "video_url" and rules.videos is not None
        if is_video or (kind == "audio_url" and rules.recordings is not None):
            decoders["av"] = av_version()
            images = images or is_video
        if kind == "file_url" and rules.documents is not None:
            decoders["pdfium"] = pdfium_version()
            images = images or rules.documents.form == "images"
        if not url.startswith((_DATA, MEDIA_SCHEME, *REMOTE)):
            contents.append(_content(url, rules))
    if not contents and not images and not decoders:
        return None
    return {"files": digest(contents), "pillow": pillow_version() if images else None, **decoders}


def _content(url: str, rules: MediaRules) -> str | None:
    try:
        return file_digest(local_file(url, rules))
    except (RecordRejected, OSError):
        return None


def shown(url: str) -> str:
    """An address as messages show it: short, without the data of a ``data:`` URL and the query of others."""
    if url.startswith(_DATA):
        return f"{url.partition(',')[0][:_SHOWN]},…"
    if url.startswith(REMOTE):
        # A query may hold a key.
        url = url.partition("?")[0]
    return url if len(url) <= _SHOWN else f"{url[: _SHOWN - 1]}…"
