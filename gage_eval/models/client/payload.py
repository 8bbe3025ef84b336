"""The JSON that endpoints answer with: parsed leniently, and shown in messages."""

import json
from typing import Any

import orjson

from gage_eval.base.canonical import encode
from gage_eval.models.client.types import without_surrogates

# Characters of an endpoint's text in a message.
SHOWN = 300


# What a web page in place of an answer is called in messages.
A_PAGE = "a web page, not an answer of a model's API"


class Malformed(Exception):
    """An answer that is not JSON or lacks a required part. The call is retried."""


def is_page(body: bytes) -> bool:
    """Whether an answer is an HTML page, as web servers and proxies send it, rather than JSON."""
    start = body[:SHOWN].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<!--"))


def parse_json(text: bytes) -> Any:
    """Parse an endpoint's JSON. Lone surrogates and bad UTF-8 become U+FFFD; NaN and a byte order mark are allowed.

    Raises:
        Malformed: not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return without_surrogates(json.loads(text.decode("utf-8-sig", errors="replace")))
    except (ValueError, RecursionError):
        raise Malformed(f"not JSON: {text[:200].decode(errors='replace')!r}") from None


def shown(value: Any) -> str:
    """The beginning of a parsed value, on one line: a text as it is, anything else as JSON."""
    if not isinstance(value, str):
        try:
            value = encode(value).decode(errors="replace")
        except ValueError:
            value = f"a {type(value).__name__} without a JSON form"
    return " ".join(value[:SHOWN].split())


def model_fingerprint(reply: dict[str, Any]) -> str | None:
    """The model as the endpoint names it; None where it does not."""
    names = (reply.get("model"), reply.get("system_fingerprint"))
    return " ".join([name for name in names if isinstance(name, str) and name]) or None
