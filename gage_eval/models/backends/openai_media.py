"""Models that make pictures, speech and videos, or write speech down, behind OpenAI's images, audio and videos APIs.

What comes is stored by its hash at once. The answer is its address (`base.made_media`).
"""

import asyncio
import base64
import mimetypes
import re
import secrets
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from gage_eval.base.canonical import JsonValue, canonical_text, digest, sha256_hex
from gage_eval.base.errors import InputError
from gage_eval.base.made_media import MadeMedium
from gage_eval.base.marks import scheduling, semantic
from gage_eval.extend import registry
from gage_eval.models.backends.asked import is_empty, skipped
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.http_model import HTTPModel, HTTPModelConfig, check_parameters
from gage_eval.models.backends.media import with_media
from gage_eval.models.client.http import Ask
from gage_eval.models.client.payload import Malformed, model_fingerprint, shown
from gage_eval.models.client.types import Request, RequestRefused, Response, token_count
from gage_eval.store.media_types import media_type
from gage_eval.store.wip import JobIds

LARGEST = 64 << 20
"""The largest medium that is kept, in bytes."""

_TOO_LARGE = "too_large"
_NO_STORE = "a model that makes media needs a store, and this run has none."
_PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
_RECORDINGS = {"audio/wav": "wav", "audio/mpeg": "mp3", "audio/flac": "flac", "audio/ogg": "ogg"}
_VIDEOS = {"video/mp4": "mp4", "video/webm": "webm"}
_ENDED = frozenset({"failed", "cancelled", "canceled", "expired"})
_JOB = re.compile(r"[\w-]{1,200}")
# Nothing that data holds can be equal to it by chance or by design.
_BOUNDARY = f"gage-eval-{secrets.token_hex(16)}"
_FORM = f"multipart/form-data; boundary={_BOUNDARY}"
_FIELD = re.compile(r"[\w.-]+(\[\])?")


class _Unusable(Exception):
    """What was answered cannot be kept, or what is asked cannot be sent: an error kind and a sentence."""


class OpenAIImagesConfig(HTTPModelConfig):
    """A model that makes or edits pictures. Undeclared keys (size, quality, …) become fields of every request."""

    response_format: Literal["b64_json"] | None = semantic(
        "infer", "b64_json", description="The form of pictures; null for models that know no such field (gpt-image)."
    )


class OpenAISpeechConfig(HTTPModelConfig):
    """A model that speaks a text. Undeclared keys (speed, instructions, …) become fields of every request."""

    voice: str = semantic("infer", "alloy", min_length=1, description="Whose voice.")
    response_format: Literal["wav", "mp3", "flac", "opus"] = semantic(
        "infer", "wav", description="The format of recordings."
    )


class OpenAITranscriptionsConfig(HTTPModelConfig):
    """A model that writes speech down. Undeclared keys (temperature, prompt, …) become fields of every request."""

    language: str | None = semantic("infer", None, description="The language that is spoken, as ISO 639-1 has it.")


class OpenAIVideosConfig(HTTPModelConfig):
    """A model that makes videos. Undeclared keys (seconds, size, …) become fields of every request."""

    poll_s: float = scheduling(5.0, gt=0, description="Seconds between two looks at a job.")
    max_job_s: float = scheduling(3600.0, gt=0, description="Seconds after which a job is given up.")


ConfigT = TypeVar("ConfigT", bound=HTTPModelConfig)


class _OpenAIMedia(HTTPModel[ConfigT]):
    """The base of the four: the parameters, and one request after another.

    Class attributes:
        makes: what it answers with in place of text; None for text.
    """

    makes: ClassVar[str | None] = None
    # The endings of the types that are kept, and the name of the file.
    _KEPT: ClassVar[Mapping[str, str]] = {}
    _NAME: ClassVar[str] = ""
    # The field of a question's media, and their type of segment.
    _FIELD: ClassVar[str] = "image"
    _KIND: ClassVar[str] = "image_url"

    def body(self, request: Request) -> dict[str, JsonValue]:
        """What is sent: the config's keys, the parameters, and the question; media by address.

        Raises:
            InputError: a parameter would change what is asked of whom, or the question cannot be sent.
        """
        body = {**(self.config.model_extra or {}), **self._own, **self.defaults, **request.params}
        body = {name: value for name, value in body.items() if value is not None}
        check_parameters(request, body)
        return {**body, "model": self.config.model, **self._asked(request)}

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer. An empty prompt is skipped without a request."""
        if is_empty(request):
            return skipped()
        made: list[bytes] = []
        try:
            ask = await asyncio.to_thread(self._ask, request, body, made)
            response = await self._exchanged(ask, made, _name(request, body))
            if response.status == "ok" and made:
                await asyncio.to_thread(self._keep, response, made[-1])
        except _Unusable as error:
            kind, sentence = error.args
            return Response("error", error_kind=kind, attempts=1, errors=[sentence])
        return response

    async def _exchanged(self, ask: Ask, made: list[bytes], _name: str) -> Response:
        """The answer to a request, whose name is ``_name``; what it holds is in ``made``."""
        return await self.endpoint.call(ask)

    @property
    def _own(self) -> dict[str, JsonValue]:
        """The fields of the config that are sent."""
        return {}

    def _asked(self, request: Request) -> dict[str, JsonValue]:
        """The fields that ask the question."""
        media = _addresses(request, self._KIND)
        return {"prompt": _text(request), **({self._FIELD: media} if media else {})}

    def _form(self, request: Request, files: Sequence[tuple[str, bytes]]) -> bytes:
        """The question as a form, with the content of its media in place of their addresses."""
        return _form({name: value for name, value in self.body(request).items() if name != self._FIELD}, files)

    def _made(self, made: list[bytes], data: bytes) -> Response:
        """The response to a medium, which is appended to ``made``."""
        if media_type(data) not in self._KEPT:
            # Some servers say with status 200 what went wrong.
            raise Malformed(f"the answer holds no {self.makes}: {shown(data[:200].decode(errors='replace'))}")
        made.append(data)
        return Response("ok", finish_reason="stop")

    @abstractmethod
    def _ask(self, request: Request, body: bytes, made: list[bytes]) -> Ask:
        """How a request is sent. What its answer holds is appended to ``made``."""

    def _keep(self, response: Response, data: bytes) -> None:
        """Store a medium; the answer becomes its address."""
        if self.context.keep is None:
            raise InputError(_NO_STORE)
        if len(data) > LARGEST:
            raise _Unusable(_TOO_LARGE, f"the answer has more than {LARGEST >> 20} MiB")
        kind = media_type(data)
        if kind not in self._KEPT:
            raise _Unusable("wrong_media", f"the answer is {kind}, and not one of {', '.join(self._KEPT)}")
        name = f"{self._NAME}.{self._KEPT[kind]}"
        medium = MadeMedium(name, self.context.keep(data), len(data))
        response.answer, response.artifacts = medium.url, medium.artifacts


@registry.backends.register("openai_images", version=1, config=OpenAIImagesConfig)
class OpenAIImages(_OpenAIMedia[OpenAIImagesConfig]):
    """Pictures by OpenAI's images API (``/images/generations``, and ``/images/edits`` for a question with pictures)."""

    type = "openai_images"
    capabilities = frozenset({"chat", "images"})
    makes = "pictures"
    _KEPT, _NAME = _PICTURES, "image"

    @property
    def _own(self) -> dict[str, JsonValue]:
        return {"response_format": self.config.response_format}

    def _ask(self, request: Request, body: bytes, made: list[bytes]) -> Ask:
        read = partial(_first_picture, made)
        pictures = _contents(with_media(request, self.context), self._KIND)
        if not pictures:
            return Ask("images/generations", body, read)
        name = "image" if len(pictures) == 1 else "image[]"
        return Ask("images/edits", self._form(request, [(name, data) for data in pictures]), read, content_type=_FORM)


@registry.backends.register("openai_speech", version=1, config=OpenAISpeechConfig)
class OpenAISpeech(_OpenAIMedia[OpenAISpeechConfig]):
    """Speech by OpenAI's audio API (``/audio/speech``)."""

    type = "openai_speech"
    capabilities = frozenset({"chat"})
    makes = "recordings"
    _KEPT, _NAME = _RECORDINGS, "speech"

    @property
    def _own(self) -> dict[str, JsonValue]:
        return {"voice": self.config.voice, "response_format": self.config.response_format}

    def _asked(self, request: Request) -> dict[str, JsonValue]:
        return {"input": _text(request)}

    def _ask(self, request: Request, body: bytes, made: list[bytes]) -> Ask:
        return Ask("audio/speech", body, partial(self._made, made), parse=bytes)


@registry.backends.register("openai_transcriptions", version=1, config=OpenAITranscriptionsConfig)
class OpenAITranscriptions(_OpenAIMedia[OpenAITranscriptionsConfig]):
    """The words of a recording by OpenAI's audio API (``/audio/transcriptions``). Only the recording is sent."""

    type = "openai_transcriptions"
    capabilities = frozenset({"chat", "images"})
    _FIELD, _KIND = "file", "audio_url"

    @property
    def _own(self) -> dict[str, JsonValue]:
        return {"language": self.config.language}

    def _asked(self, request: Request) -> dict[str, JsonValue]:
        return {self._FIELD: _addresses(request, self._KIND)}

    def _ask(self, request: Request, body: bytes, made: list[bytes]) -> Ask:
        recordings = _contents(with_media(request, self.context), self._KIND)
        if len(recordings) != 1:
            raise _Unusable("no_recording", f"a transcription takes one recording; the question has {len(recordings)}")
        form = self._form(request, [("file", recordings[0])])
        return Ask("audio/transcriptions", form, _written, content_type=_FORM)


@registry.backends.register("openai_videos", version=1, config=OpenAIVideosConfig)
class OpenAIVideos(_OpenAIMedia[OpenAIVideosConfig]):
    """Videos by OpenAI's videos API: a job is made (``/videos``), looked at until it ends, and its content fetched.

    The ids of jobs are in the store until their videos are in the log, so that a later process fetches what an earlier
    one began, wherever that was killed.
    """

    type = "openai_videos"
    capabilities = frozenset({"chat", "images"})
    makes = "videos"
    _KEPT, _NAME, _FIELD = _VIDEOS, "video", "input_reference"

    def __init__(self, config: OpenAIVideosConfig, context: BackendContext) -> None:
        super().__init__(config, context)
        self._forgetting: list[asyncio.Task[None]] = []

    async def call(self, request: Request, body: bytes) -> Response:
        response = await super().call(request, body)
        if response.status == "ok" or response.error_kind == _TOO_LARGE:
            # The caller logs the answer before it waits for anything, so this task begins after that.
            drop = asyncio.to_thread(self._ids.drop, _name(request, body))
            self._forgetting.append(asyncio.create_task(drop))
        return response

    async def close(self) -> None:
        """Close the session. An id that could not be removed does no harm."""
        await asyncio.gather(*self._forgetting, return_exceptions=True)
        await super().close()

    @property
    def _ids(self) -> JobIds:
        config = self.config
        if self.context.job_ids is None:
            raise InputError(_NO_STORE)
        return self.context.job_ids(digest([config.base_url, config.model, config.identity, config.freshness]))

    def _ask(self, request: Request, body: bytes, made: list[bytes]) -> Ask:
        pictures = _contents(with_media(request, self.context), self._KIND)
        if len(pictures) > 1:
            raise _Unusable("several_pictures", f"a video begins with one picture; the question has {len(pictures)}")
        files = [(self._FIELD, data) for data in pictures]
        return Ask("videos", self._form(request, files), _job, content_type=_FORM)

    async def _exchanged(self, ask: Ask, made: list[bytes], name: str) -> Response:
        config, began, errors, ids = self.config, time.monotonic(), list[str](), self._ids
        try:
            response = await self._begun(ask, name, ids)
            while response.status == "ok" and response.answer is not None:
                errors += response.errors
                job, state = response.answer.split()
                if state == "completed":
                    following = Ask(f"videos/{job}/content", None, partial(self._made, made), parse=bytes)
                elif time.monotonic() - began > config.max_job_s:
                    said = f"job {job} is {state} after {config.max_job_s:g} s (max_job_s)"
                    return Response("error", error_kind="job_timeout", attempts=1, errors=[said])
                else:
                    await asyncio.sleep(config.poll_s)
                    following = Ask(f"videos/{job}", None, _job)
                response = await self.endpoint.call(following)
        except _Unusable:
            await asyncio.to_thread(ids.drop, name)
            raise
        response.errors = errors + response.errors
        response.attempts, response.latency_ms = len(response.errors) + len(made), (time.monotonic() - began) * 1000
        return response

    async def _begun(self, ask: Ask, name: str, ids: JobIds) -> Response:
        """The state of a request's job: of one that an earlier process began, or of a new one."""
        job = await asyncio.to_thread(ids.get, name)
        if job is not None:
            with suppress(RequestRefused, _Unusable):
                if _JOB.fullmatch(job):
                    return await self.endpoint.call(Ask(f"videos/{job}", None, _job))
            # The endpoint no longer has it, or it failed.
            await asyncio.to_thread(ids.drop, name)
        response = await self.endpoint.call(ask)
        if response.status == "ok" and response.answer is not None:
            await asyncio.to_thread(ids.put, name, response.answer.split()[0])
        return response


def _name(request: Request, body: bytes) -> str:
    """Names a request: equal ones of one draw have one name."""
    return f"{sha256_hex(body)}-{request.draw}"


def _job(reply: Any) -> Response:
    """The id of a job and its state, as the answer."""
    job, state = (reply.get(name) if isinstance(reply, dict) else None for name in ("id", "status"))
    if not isinstance(job, str) or not isinstance(state, str) or not _JOB.fullmatch(job) or not _JOB.fullmatch(state):
        raise Malformed("the answer has no id and status of a job")
    if state in _ENDED:
        error = reply.get("error")
        raise _Unusable(f"job_{state}", f"job {job} {state}{f': {shown(error)}' if error else ''}")
    response = Response("ok", finish_reason="stop", model_fingerprint=model_fingerprint(dict(reply)))
    response.answer = f"{job} {state}"
    return response


def _first_picture(made: list[bytes], reply: Any) -> Response:
    data = reply.get("data") if isinstance(reply, dict) else None
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    text = first.get("b64_json")
    if not isinstance(text, str):
        if first.get("url"):
            raise _Unusable("address", "the endpoint answers with an address and not with the picture")
        error = reply.get("error") if isinstance(reply, dict) else None
        raise Malformed(f"the answer has no data[0].b64_json{f': {shown(error)}' if error else ''}")
    try:
        made.append(base64.b64decode(text, validate=True))
    except ValueError:
        raise Malformed("data[0].b64_json of the answer is not base64") from None
    response = _counted(reply)
    revised = first.get("revised_prompt")
    response.reasoning = revised if isinstance(revised, str) else None
    return response


def _written(reply: Any) -> Response:
    text = reply.get("text") if isinstance(reply, dict) else None
    if not isinstance(text, str):
        raise Malformed("the answer has no text")
    response = _counted(reply)
    response.answer = text
    return response


def _counted(reply: Mapping[str, Any]) -> Response:
    """A response with what the endpoint counted."""
    usage = reply.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Response(
        "ok",
        finish_reason="stop",
        prompt_tokens=token_count(usage.get("input_tokens")),
        completion_tokens=token_count(usage.get("output_tokens")),
        model_fingerprint=model_fingerprint(dict(reply)),
    )


def _text(request: Request) -> str:
    """All texts of a question; the API knows no roles."""
    texts: list[str] = []
    for message in request.messages or []:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        else:
            texts += [part["text"] for part in content or [] if isinstance(part.get("text"), str)]
    return "\n\n".join(text for text in texts if text)


def _addresses(request: Request, kind: str) -> list[JsonValue]:
    """The addresses of a question's media of a kind."""
    return [str(part[kind].get("url")) for part in _parts(request.messages or [], kind)]


def _contents(messages: Iterable[Mapping[str, Any]], kind: str) -> list[bytes]:
    """The bytes of a question's media of a kind.

    Raises:
        _Unusable: one of them is an address elsewhere.
    """
    contents = []
    for part in _parts(messages, kind):
        head, separator, data = str(part[kind].get("url")).partition(";base64,")
        if not head.startswith("data:") or not separator:
            raise _Unusable("not_at_hand", f"{head[:100]} is not stored; this API takes bytes and no addresses")
        contents.append(base64.b64decode(data))
    return contents


def _parts(messages: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    lists = (message["content"] for message in messages if isinstance(message.get("content"), list))
    return [part for parts in lists for part in parts if isinstance(part.get(kind), dict)]


def _form(fields: Mapping[str, JsonValue], files: Sequence[tuple[str, bytes]]) -> bytes:
    """Fields and files as multipart/form-data.

    Raises:
        _Unusable: a parameter's name cannot be a field's.
    """
    pieces: list[bytes] = []
    for name, value in fields.items():
        if not _FIELD.fullmatch(name):
            raise _Unusable("wrong_parameter", f"parameter {name!r} cannot be the name of a field")
        text = value if isinstance(value, str) else canonical_text(value)
        pieces.append(_piece(f'name="{name}"', "text/plain; charset=utf-8", text.encode()))
    for name, data in files:
        kind = media_type(data)
        ending = mimetypes.guess_extension(kind) or ""
        pieces.append(_piece(f'name="{name}"; filename="{name.rstrip("[]")}{ending}"', kind, data))
    return b"".join((*pieces, f"--{_BOUNDARY}--\r\n".encode()))


def _piece(what: str, kind: str, data: bytes) -> bytes:
    head = f"--{_BOUNDARY}\r\nContent-Disposition: form-data; {what}\r\nContent-Type: {kind}\r\n\r\n"
    return b"%b%b\r\n" % (head.encode(), data)
