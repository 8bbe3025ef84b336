"""A raw record's text on its way to a Sample: parsed, named, or rejected with the reason."""

import hashlib
import json
from typing import Any

from gage_eval import canonical
from gage_eval.errors import InputError

_UNREADABLE = "#!unreadable: "
_KINDS: dict[type, str] = {
    type(None): "null",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


class RecordRejected(InputError):
    """A record that is no Sample. It goes to the rejects with `reason`, one sentence naming the place."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def content_id(record_text: bytes) -> str:
    """The id of a record that states none: the first 16 hex digits of the sha256 of its text."""
    return hashlib.sha256(record_text).hexdigest()[:16]


def unreadable(reason: str, shown: str) -> str:
    """Stands in the raw table for a record that is no text; `parse_record` rejects it with ``reason``."""
    return f"{_UNREADABLE}{reason}\n{shown}"


def parse_record(text: str) -> dict[str, Any]:
    """The JSON object of a raw record.

    Raises:
        RecordRejected: the text is no JSON, or no object.
    """
    try:
        record = canonical.decode(text)
    except canonical.TooDeep:
        raise RecordRejected("the record is nested too deeply.") from None
    except ValueError as error:
        if text.startswith(_UNREADABLE):
            raise RecordRejected(text.removeprefix(_UNREADABLE).partition("\n")[0]) from None
        raise RecordRejected(f"the record is not JSON: {_fault(error)}.") from None
    if type(record) is not dict:
        raise RecordRejected(f"the record is {kind_of(record)}, not a JSON object.")
    return record


def _fault(error: ValueError) -> str:
    """Why a text is no JSON. A record is a line of its file: the parser's own line and column would mislead."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    what = error.msg[:1].lower() + error.msg[1:]
    return f"{what.removesuffix(' at')} at character {error.pos + 1:,}"


def kind_of(value: Any) -> str:
    """What a JSON value is, in the words of messages: ``a string``, ``null``, …"""
    return _KINDS.get(type(value), f"a {type(value).__name__}")
