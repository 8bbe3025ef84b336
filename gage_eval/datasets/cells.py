"""Values of typed tables (Parquet, datasets) as JSON."""

import base64
import datetime
import decimal
import math
import uuid
from collections.abc import Mapping
from typing import Any

from gage_eval.canonical import JsonValue

_MEDIA = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"%PDF-", "application/pdf"),
)


def plain(value: Any) -> JsonValue:
    """A cell as JSON.

    NaN, which tables write for missing numbers, is null. Times are ISO 8601, decimals keep their digits as text.
    Bytes are a data URL; so is ``{bytes, path}``, the form in which tables hold a medium.

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
        return data_url(value)
    if isinstance(value, Mapping):
        if set(value) == {"bytes", "path"} and isinstance(value["bytes"], bytes | None):
            return data_url(value["bytes"]) if value["bytes"] is not None else plain(value["path"])
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # Arrow gives a map as a list of pairs; as such it stays.
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    raise ValueError(f"a {type(value).__name__} has no JSON form")


def data_url(data: bytes) -> str:
    """Bytes as a data URL; the type is told by the first bytes."""
    if data[:4] == b"RIFF":
        media_type = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "application/octet-stream")
    else:
        media_type = next((name for magic, name in _MEDIA if data.startswith(magic)), "application/octet-stream")
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
