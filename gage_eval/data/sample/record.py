"""The text of a raw record: parse it, name it, or reject it with a reason."""

import hashlib
from typing import Any

from gage_eval.base import canonical
from gage_eval.base.errors import InputError

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
    """A record that is not a Sample. It is stored in the rejects with `reason`, a sentence that names the place."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def content_id(record_text: bytes) -> str:
    """The id for a record that has none: the first 16 hex digits of its text's sha256."""
    return hashlib.sha256(record_text).hexdigest()[:16]


def unreadable(reason: str, shown: str) -> str:
    """The text that replaces a record that is not text; `parse_record` rejects it with ``reason``."""
    return f"{_UNREADABLE}{reason}\n{shown}"


def parse_record(text: str) -> dict[str, Any]:
    """The JSON object of a raw record.

    Raises:
        RecordRejected: the text is not JSON, or not an object.
    """
    try:
        record = canonical.decode(text)
    except canonical.TooDeep:
        raise RecordRejected("the record is nested too deeply.") from None
    except ValueError as error:
        if text.startswith(_UNREADABLE):
            raise RecordRejected(text.removeprefix(_UNREADABLE).partition("\n")[0]) from None
        raise RecordRejected(f"the record is not JSON: {canonical.json_fault(error)}.") from None
    if type(record) is not dict:
        raise RecordRejected(f"the record is {kind_of(record)}, not a JSON object.")
    return record


def kind_of(value: Any) -> str:
    """The kind of a JSON value, as messages name it: ``a string``, ``null``, …"""
    return _KINDS.get(type(value), f"a {type(value).__name__}")
