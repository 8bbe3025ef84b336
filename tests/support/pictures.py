"""Small real images for tests."""

import io
from pathlib import Path

from PIL import Image


def image(width: int = 40, height: int = 30, kind: str = "PNG", colour: tuple[int, int, int] = (200, 30, 60)) -> bytes:
    """An image of one colour with a lighter corner."""
    picture = Image.new("RGB", (width, height), colour)
    picture.paste((250, 250, 250), (0, 0, max(1, width // 3), max(1, height // 3)))
    out = io.BytesIO()
    picture.save(out, kind)
    return out.getvalue()


def size_of(data: bytes) -> tuple[int, int]:
    """Width and height."""
    with Image.open(io.BytesIO(data)) as picture:
        return picture.size


def write_image(file: Path, **how: object) -> bytes:
    """Write an image to a file; returns its bytes."""
    data = image(**how)  # type: ignore[arg-type]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return data
