"""Messages as they are sent: media by hash become part of the request."""

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from mimetypes import guess_extension
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.media_server import MediaLinks
from gage_eval.models.client.http import data_url
from gage_eval.models.client.types import Request
from gage_eval.store.media import MEDIA_SCHEME
from gage_eval.store.media_types import JPEG_FRAMES

# What the body of a request that refers to media holds; others need no look at their messages.
MEDIA_REFERENCE = MEDIA_SCHEME.encode()
_INPUT_AUDIO = {"data:audio/wav": "wav", "data:audio/x-wav": "wav", "data:audio/mpeg": "mp3", "data:audio/mp3": "mp3"}


def holds_parts(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether a message may hold more than text."""
    for message in messages:  # noqa: SIM110 - once per request, and a generator takes three times as long
        if isinstance(message.get("content"), list):
            return True
    return False


def with_media(
    request: Request, context: BackendContext, *, files: bool = False, links: MediaLinks | None = None
) -> list[dict[str, Any]]:
    """The messages of a request, each ``media://`` reference replaced by what the model is given.

    Args:
        request: its ``embed`` asks for data in any case.
        context: of the backend.
        files: whether the backend reads files: then media on this machine have a ``path`` in place of a ``url``.
            Other media become data URLs.
        links: gives media URLs; None to send data URLs.

    Raises:
        InputError: there is such a reference and the run has no media store.
    """
    part = partial(_part, context=context, files=files, links=links, embed=request.embed)
    return [_message(message, part) for message in request.messages or []]


def part_types(messages: Sequence[dict[str, Any]]) -> set[str]:
    """The types of the parts of messages."""
    contents = (message.get("content") for message in messages)
    return {str(part.get("type")) for content in contents if isinstance(content, list) for part in content}


def in_form(messages: list[dict[str, Any]], forms: Mapping[str, str]) -> list[dict[str, Any]]:
    """Messages whose recordings and documents, which are data URLs, have the form that the endpoint takes.

    Args:
        messages: as `with_media` makes them.
        forms: of ``audio_url`` and ``file_url``: these themselves, or OpenAI's (`OPENAI_FORMS`).

    Raises:
        InputError: OpenAI's form cannot hold one of them.
    """
    makers = {kind: _MAKERS[form] for kind, form in forms.items() if form != kind}

    def formed(part: dict[str, Any]) -> dict[str, Any]:
        maker = makers.get(str(part.get("type")))
        return part if maker is None else maker(str(part[part["type"]].get("url", "")))

    return [_message(message, formed) for message in messages] if makers else messages


def _input_audio(url: str) -> dict[str, Any]:
    head, _, data = url.partition(";base64,")
    form = _INPUT_AUDIO.get(head)
    if form is None:
        raise InputError(
            f"audio_part: input_audio takes WAV and MP3, not {head.removeprefix('data:')[:80] or 'an address'}: "
            "set audio_rate in the dataset's params, which makes WAV of every recording."
        )
    return {"type": "input_audio", "input_audio": {"data": data, "format": form}}


def _file(url: str) -> dict[str, Any]:
    if not url.startswith("data:"):
        raise InputError("file_part: file takes documents and no addresses: set pdf in the dataset's params.")
    ending = guess_extension(url[len("data:") :].partition(";")[0]) or ""
    return {"type": "file", "file": {"filename": f"document{ending}", "file_data": url}}


OPENAI_FORMS = {"audio_url": "input_audio", "file_url": "file"}
"""The forms of OpenAI's endpoints, by the types that vLLM and SGLang take."""
_MAKERS: Mapping[str, Callable[[str], dict[str, Any]]] = {"input_audio": _input_audio, "file": _file}


def _message(message: dict[str, Any], part: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    content = message.get("content")
    return {**message, "content": list(map(part, content))} if isinstance(content, list) else message


def _part(
    part: dict[str, Any], context: BackendContext, *, files: bool, links: MediaLinks | None, embed: bool
) -> dict[str, Any]:
    kind = str(part.get("type"))
    holder = part.get(kind)
    if not isinstance(holder, dict):
        return part
    # A backend that reads files gets only files of the store, and none that a dataset names.
    rest = {name: value for name, value in holder.items() if name != "path" or not files}
    url = holder.get("url")
    if not isinstance(url, str) or not url.startswith(MEDIA_SCHEME):
        return {**part, kind: rest}
    if context.media is None:
        raise InputError(f"a message refers to {url}, but the run has no media store.")
    media_type = rest.pop("media_type", None)
    if media_type == JPEG_FRAMES:
        frames = [base64.b64encode(context.media(frame)).decode() for frame in rest.pop("frames")]
        return {**part, kind: {**rest, "url": f"data:{JPEG_FRAMES};base64,{','.join(frames)}"}}
    path = context.media_file(url) if files and not embed else None
    if path is not None:
        del rest["url"]
        return {**part, kind: {**rest, "path": str(path)}}
    address = None if links is None or embed else links.url(kind, url, media_type)
    return {**part, kind: {**rest, "url": address or data_url(context.media(url), media_type)}}
