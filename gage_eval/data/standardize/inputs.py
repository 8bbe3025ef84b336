"""``inputs`` of a record, as other tools write it: the prompt and the media."""

from typing import Any

from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.standardize.compose import last_user
from gage_eval.data.standardize.fields import MEDIA_KINDS, addresses


def with_inputs(record: dict[str, Any]) -> dict[str, Any]:
    """A Sample-shaped record whose messages hold what ``inputs`` asks and shows; ``inputs`` itself stays.

    ``inputs.prompt`` is the user message of a record without messages. The media of ``inputs.multi_modal_data``
    (``image``, ``audio``, ``video``, ``file``) that no message holds go to the head of the last user message.

    Raises:
        RecordRejected: the media are not addresses, or there is no user message to show them in.
    """
    inputs = record.get("inputs")
    if type(inputs) is not dict:
        return record
    messages, prompt = record.get("messages"), inputs.get("prompt")
    if not messages and type(prompt) is str and prompt:
        messages = [{"role": "user", "content": prompt}]
    shown = _shown(messages) if type(messages) is list else set()
    segments = [
        {"type": kind, kind: {"url": url}} for kind, url in _media(inputs.get("multi_modal_data")) if url not in shown
    ]
    if segments:
        messages = _with_segments(messages, segments)
    return record if messages is record.get("messages") else {**record, "messages": messages}


def _media(data: Any) -> list[tuple[str, str]]:
    """(segment type, address) of each medium, every one once."""
    if data is None:
        return []
    where = "inputs.multi_modal_data"
    if type(data) is not dict:
        raise RecordRejected(f"{where}: it must be an object of media, not {kind_of(data)}.")
    for key in data:
        if key not in MEDIA_KINDS:
            raise RecordRejected(f"{where}.{key}: media are image, audio, video or file.")
    media: dict[tuple[str, str], None] = {}
    for key, kind in MEDIA_KINDS.items():
        if data.get(key) not in (None, []):
            media.update({(kind, url): None for url in addresses(data[key], f"{where}.{key}", "a file")})
    return list(media)


def _shown(messages: list[Any]) -> set[str]:
    """The addresses of the media in messages of any form."""
    shown = set()
    for message in messages:
        content = message.get("content") if type(message) is dict else None
        for segment in content if type(content) is list else ():
            kind = segment.get("type") if type(segment) is dict else None
            medium = segment.get(kind) if type(kind) is str else None
            url = medium.get("url") if type(medium) is dict else medium
            if type(url) is str:
                shown.add(url)
    return shown


def _with_segments(messages: Any, segments: list[dict[str, Any]]) -> list[Any]:
    last = last_user(messages) if type(messages) is list else None
    if last is not None:
        message = messages[last]
        content = message.get("content")
        text = [{"type": "text", "text": content}] if type(content) is str else content
        if text is None or type(text) is list:
            return [*messages[:last], {**message, "content": [*segments, *(text or [])]}, *messages[last + 1 :]]
    raise RecordRejected("inputs.multi_modal_data: there is no user message to show these media in.")
