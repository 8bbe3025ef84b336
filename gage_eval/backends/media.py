"""Messages as they are sent: media by hash become part of the request."""

from collections.abc import Sequence
from typing import Any

from gage_eval.backends.base import BackendContext
from gage_eval.engine.http import data_url
from gage_eval.errors import InputError

_MEDIA = "media://"


def holds_parts(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether a message may hold more than text."""
    return any(isinstance(message.get("content"), list) for message in messages)


def with_media(messages: Sequence[dict[str, Any]], context: BackendContext) -> list[dict[str, Any]]:
    """The messages with data URLs in place of ``media://`` references.

    Raises:
        InputError: there is such a reference and the run has no media store.
    """
    return [_message(message, context) for message in messages]


def _message(message: dict[str, Any], context: BackendContext) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_part(part, context) for part in content]}


def _part(part: dict[str, Any], context: BackendContext) -> dict[str, Any]:
    kind = str(part.get("type"))
    holder = part.get(kind)
    url = holder.get("url") if isinstance(holder, dict) else None
    if not isinstance(url, str) or not url.startswith(_MEDIA):
        return part
    if context.media is None:
        raise InputError(f"a message refers to {url}, but the run has no media store.")
    assert isinstance(holder, dict)
    return {**part, kind: {**holder, "url": data_url(context.media(url))}}
