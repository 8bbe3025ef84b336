"""The type of media: told by the content where it can be, else by the ending, and never by the machine."""

import pytest

from gage_eval.store.media_types import media_type


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (b"%PDF-1.7", "a.txt", "application/pdf"),
        (b"\0\0\0\x20ftypisom", "", "video/mp4"),
        (b"\0\0\0\x20ftypM4A ", "", "audio/mp4"),
        (b"BMxxxx\0\0\0\0", "", "image/bmp"),
        (b"BMW is a maker of cars.", "", "text/plain"),
        (b"# Title", "notes/a.md", "text/markdown"),
        ("Größe,1".encode(), "table.CSV", "text/csv"),
        (b"{}", "a.json", "application/json"),
        (b"PK\x03\x04", "a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("Grüße".encode(), "LICENSE", "text/plain"),
        (b"a\0b", "", "application/octet-stream"),
        (b"\xff\xfe\x00", "", "application/octet-stream"),
        (b"", "", "application/octet-stream"),
        (b"packed", "a.txt.gz", "text/plain"),
    ],
)
def test_content_comes_first_then_the_ending_then_text(data: bytes, name: str, expected: str) -> None:
    assert media_type(data, name) == expected
