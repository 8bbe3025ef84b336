"""Images for models: checked, and resized where the config says so. Pillow is loaded on first use."""

import io
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected
from gage_eval.extend.extras import missing

if TYPE_CHECKING:
    from PIL.Image import Image

# Defaults of the Qwen2-VL and Qwen2.5-VL processors, whose patches are 28 pixels wide after merging.
FACTOR = 28
MIN_PIXELS = 4 * FACTOR * FACTOR
MAX_PIXELS = 16384 * FACTOR * FACTOR
MAX_RATIO = 200
# Pillow warns of a decompression bomb from this size on: 256 MiB of RGB.
BOMB_PIXELS = 89_478_485
_JPEG_QUALITY = 95
# For these formats Pillow starts Ghostscript, another program. Data must not start programs.
_PROGRAMS = frozenset({"EPS"})
# Modes of eight-bit colours that a PNG cannot hold; they become RGB or RGBA.
_CONVERTED = frozenset({"CMYK", "YCbCr", "LAB", "HSV", "RGBX", "RGBa", "La", "PA"})
# The errors that decoders raise for damaged files.
_BROKEN = (
    OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, ArithmeticError, AttributeError, AssertionError,
    MemoryError, struct.error, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class ImageRules:
    """Size limits of images; without any value images stay as they are.

    Attributes:
        min_pixels: smaller areas are enlarged. Default 3,136.
        max_pixels: larger areas are reduced. Default 12,845,056.
        factor: width and height become multiples of it. Default 28.
    """

    min_pixels: int | None = None
    max_pixels: int | None = None
    factor: int | None = None

    def __post_init__(self) -> None:
        low, high = self.min_pixels or MIN_PIXELS, self.max_pixels or MAX_PIXELS
        if low > high:
            raise InputError(f"image_min_pixels {low:,} is more than image_max_pixels {high:,}.")

    @property
    def resizes(self) -> bool:
        """Whether any rule is given."""
        return any(value is not None for value in (self.min_pixels, self.max_pixels, self.factor))

    def material(self) -> JsonValue:
        """What determines the images that are sent."""
        return {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels, "factor": self.factor}

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """Width and height after resizing, by the rule of Qwen2-VL's image processor (``smart_resize``).

        Both become multiples of the factor, the area is between the bounds, and the ratio is kept as well as
        possible.

        Raises:
            RecordRejected: one side is more than 200 times the other.
        """
        if not self.resizes:
            return width, height
        if max(width, height) > MAX_RATIO * min(width, height):
            raise RecordRejected(f"the image has {width} x {height} pixels; the ratio may be at most {MAX_RATIO}.")
        factor = self.factor or FACTOR
        low, high = self.min_pixels or MIN_PIXELS, self.max_pixels or MAX_PIXELS
        new_width = max(factor, round(width / factor) * factor)
        new_height = max(factor, round(height / factor) * factor)
        if new_width * new_height > high:
            shrink = math.sqrt(width * height / high)
            new_width = max(factor, math.floor(width / shrink / factor) * factor)
            new_height = max(factor, math.floor(height / shrink / factor) * factor)
        elif new_width * new_height < low:
            grow = math.sqrt(low / (width * height))
            new_width = math.ceil(width * grow / factor) * factor
            new_height = math.ceil(height * grow / factor) * factor
        return new_width, new_height


@dataclass(frozen=True, slots=True)
class Picture:
    """An image ready to be stored: its bytes, its type, its width and height in pixels."""

    data: bytes
    media_type: str
    width: int
    height: int


def pillow_version() -> str:
    """The version of Pillow, which decides the bytes of the images.

    Raises:
        InputError: it is not installed.
    """
    try:
        from PIL import __version__
    except ImportError:
        raise missing("a dataset with images", "Pillow", "media") from None
    return __version__


def prepared(data: bytes, rules: ImageRules) -> Picture:
    """The image checked by decoding it whole, and resized by the rules.

    An image within the limits is kept byte for byte. A resized JPEG stays JPEG (quality 95); other formats become PNG.
    A resized image is rotated as its metadata says, and only the first frame of an animation is used.

    Raises:
        RecordRejected: the bytes are not an image, are broken, or have too many pixels or too extreme a ratio.
        InputError: Pillow is not installed.
    """
    with decoded(data) as image:
        from PIL import Image

        media_type = Image.MIME.get(image.format or "", "application/octet-stream")
        if rules.fitted(*image.size) == image.size:
            return Picture(data, media_type, *image.size)
        upright = _upright(image)
        return _encoded(upright.resize(rules.fitted(*upright.size), Image.Resampling.BICUBIC), media_type)


def preview(data: bytes, longest: int) -> bytes:
    """A small copy of a picture for pages, as WebP: its first frame, rotated as its metadata says.

    Args:
        data: of the picture.
        longest: pixels of its longer side.

    Raises:
        RecordRejected, InputError: as `prepared`.
    """
    with decoded(data) as image:
        small = _upright(image)
        small.thumbnail((longest, longest))
        out = io.BytesIO()
        small.save(out, "WEBP", quality=80)
        return out.getvalue()


def _upright(image: "Image") -> "Image":
    """The image itself, rotated as its metadata says; a copy where its mode cannot be resized."""
    from PIL import ImageOps

    ImageOps.exif_transpose(image, in_place=True)
    return in_mode(image, _mode(image))


def in_mode(image: "Image", mode: str) -> "Image":
    """The image in a mode; itself, and not a copy, where it has that."""
    return image if image.mode == mode else image.convert(mode)


@contextmanager
def decoded(data: bytes) -> "Iterator[Image]":
    """Context of an image of Pillow, decoded whole.

    Raises:
        RecordRejected: the bytes are not an image, are broken, or have too many pixels; also from the block, where
            Pillow finds it out only there.
        InputError: Pillow is not installed.
    """
    pillow_version()
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=_formats()) as image:
            width, height = image.size
            if width * height > BOMB_PIXELS:
                raise RecordRejected(f"the image has {width} x {height} pixels, more than {BOMB_PIXELS:,} in all.")
            image.load()
            yield image
    except UnidentifiedImageError:
        raise RecordRejected("it is not a readable image.") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise RecordRejected(f"the image has more than {BOMB_PIXELS:,} pixels.") from None
    except _BROKEN as error:
        raise RecordRejected(_broken(error)) from None


def as_jpeg(image: "Image", rules: ImageRules) -> Picture:
    """An RGB image of Pillow, such as a frame of a video, as JPEG (quality 95), resized by the rules.

    Raises:
        RecordRejected: its ratio is too extreme.
    """
    from PIL import Image

    size = rules.fitted(*image.size)
    return _encoded(image if size == image.size else image.resize(size, Image.Resampling.BICUBIC), "image/jpeg")


@cache
def _formats() -> tuple[str, ...]:
    """The formats that Pillow reads without starting another program."""
    from PIL import Image

    Image.init()
    return tuple(name for name in Image.ID if name not in _PROGRAMS)


def as_png(image: "Image") -> bytes:
    """A Pillow image, such as a callable of a config may return, as PNG bytes.

    Raises:
        RecordRejected: it cannot be decoded (Pillow reads a file only when its pixels are needed), or a PNG cannot
            hold it.
    """
    out = io.BytesIO()
    try:
        (image.convert(_mode(image)) if image.mode in _CONVERTED else image).save(out, "PNG")
    except _BROKEN as error:
        raise RecordRejected(_broken(error)) from None
    return out.getvalue()


def _broken(error: BaseException) -> str:
    return f"the image is broken ({' '.join(str(error).split())[:120]})."


def _mode(image: "Image") -> str:
    return "RGBA" if image.has_transparency_data else "RGB"


def _encoded(image: "Image", media_type: str) -> Picture:
    out = io.BytesIO()
    if media_type == "image/jpeg":
        image.convert("RGB").save(out, "JPEG", quality=_JPEG_QUALITY)
        return Picture(out.getvalue(), "image/jpeg", *image.size)
    image.save(out, "PNG")
    return Picture(out.getvalue(), "image/png", *image.size)
