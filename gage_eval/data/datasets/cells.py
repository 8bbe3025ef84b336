"""Values of typed tables (Parquet, datasets) as JSON."""

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.data.datasets.base import record_text
from gage_eval.data.sample.record import unreadable
from gage_eval.store.media import Keep


def plain(value: Any, keep: Keep, read: Callable[[str], bytes | None] = lambda path: None) -> JsonValue:
    """A cell as JSON.

    NaN, which tables write for missing numbers, becomes null. Times are ISO 8601; decimals become text.
    Bytes are stored and replaced by their address; so are the bytes of ``{bytes, path}``, the form in which tables hold
    a medium.

    Args:
        value: the cell's value.
        keep: stores bytes.
        read: reads the bytes of a medium for which the table has only the path; None leaves the path.

    Raises:
        ValueError: an infinity, or a type without a JSON form.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"{value} has no JSON form")
        return None if math.isnan(value) else value
    if isinstance(value, bytes):
        return keep(value)
    if isinstance(value, Mapping):
        if set(value) == {"bytes", "path"} and isinstance(value["bytes"], bytes | None):
            return _medium(value["bytes"], value["path"], keep, read)
        return {str(key): plain(item, keep, read) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # Arrow gives a map as a list of pairs; it stays a list of pairs.
        return [plain(item, keep, read) for item in value]
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    raise ValueError(f"a {type(value).__name__} has no JSON form")


def row_text(
    row: Mapping[str, Any],
    keep: Keep,
    read: Callable[[str], bytes | None] = lambda path: None,
    named: Callable[[JsonValue], JsonValue] = lambda record: record,
) -> str:
    """The raw text of a table's row. A row without a JSON form is rejected later, with the reason.

    Args:
        row: its cells by column.
        keep: stores bytes.
        read: as for `plain`.
        named: adds the name of the row's file.
    """
    try:
        return record_text(named(plain(row, keep, read)))
    except ValueError as error:
        return unreadable(f"the row has no JSON form: {error}.", "")


def _medium(data: bytes | None, path: Any, keep: Keep, read: Callable[[str], bytes | None]) -> JsonValue:
    if data is None and isinstance(path, str):
        data = read(path)
    return plain(path, keep) if data is None else keep(data)
