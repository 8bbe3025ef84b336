"""The type of media, which stores do not keep: found from the content, the file name, or both."""

import mimetypes
import re
from functools import cache

# Offset, first bytes there, type.
_MAGIC = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyphei", "image/heic"),
    (4, b"ftyp", "video/mp4"),
    (0, b"%PDF-", "application/pdf"),
)
JPEG_FRAMES = "video/jpeg"
"""The type of a video that is sent as JPEG images, as vLLM takes it."""
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_UNKNOWN = "application/octet-stream"
_CONTROL = re.compile("[\0-\x08\x0e-\x1f]")
_OFFICE = "application/vnd.openxmlformats-officedocument"
# Types that older versions of Python do not know.
_OWN = {
    ".md": "text/markdown",
    ".rst": "text/x-rst",
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
}


def media_type(data: bytes, name: str = "") -> str:
    """The type of media bytes.

    Args:
        data: all of them. Formats with a signature are recognized by it.
        name: of the file they come from. Its ending decides for formats without a signature (documents, tables, source
        code). Without a name, text is ``text/plain``.
    """
    for offset, magic, known in _MAGIC:
        if data[offset : offset + len(magic)] == magic:
            return known
    # Two letters alone could begin a text, so four reserved bytes must be zero too.
    if data[:2] == b"BM" and data[6:10] == bytes(4):
        return "image/bmp"
    named, packed = _by_name().guess_type(name.partition("?")[0], strict=False)
    if named is not None and packed is None:
        return named
    return "text/plain" if _is_text(data) else _UNKNOWN


def is_media_type(value: object) -> bool:
    """Whether a value is a type such as ``text/csv``."""
    return isinstance(value, str) and _TYPE.fullmatch(value) is not None


@cache
def _by_name() -> mimetypes.MimeTypes:
    """Python's own table, because each machine has another one, plus what older versions of it lack."""
    table = mimetypes.MimeTypes()
    for ending, known in _OWN.items():
        table.add_type(known, ending)
    return table


def _is_text(data: bytes) -> bool:
    try:
        return bool(data) and _CONTROL.search(data.decode()) is None
    except UnicodeDecodeError:
        return False
