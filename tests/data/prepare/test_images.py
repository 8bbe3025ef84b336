"""Images: checked by decoding, resized by the rule of Qwen2-VL, kept byte for byte where they fit."""

import io
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from support.pictures import image, size_of

from gage_eval.base.errors import InputError
from gage_eval.data.prepare.images import MAX_PIXELS, MAX_RATIO, MIN_PIXELS, ImageRules, prepared
from gage_eval.data.sample.record import RecordRejected

# The peak of a process after a small image, and after a large one: in KiB.
PEAK = """
import resource, sys
from gage_eval.data.prepare.images import ImageRules, prepared
for file in sys.argv[1:]:
    prepared(open(file, "rb").read(), ImageRules(max_pixels=1_000_000))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def claims(width: int, height: int) -> bytes:
    """A PNG whose header claims a size it does not have."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")


def test_without_rules_every_image_is_kept_byte_for_byte() -> None:
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP"):
        data = image(33, 7, kind)
        picture = prepared(data, ImageRules())
        assert picture.data is data
        assert (picture.width, picture.height) == (33, 7)
        assert picture.media_type == f"image/{kind.lower()}"


def test_an_image_of_fifty_million_pixels_is_in_memory_once(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("small.png", "large.png")]
    for file, size in zip(files, ((8, 8), (8_000, 6_250)), strict=True):
        Image.new("RGB", size).save(file, compress_level=1)
    done = subprocess.run([sys.executable, "-c", PEAK, *files], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    # Pillow has four bytes for each pixel: 191 MiB.
    assert after - before < 300 * 1024


def test_no_image_starts_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*args: object, **kwargs: object) -> None:
        raise AssertionError("Ghostscript was started")

    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", start)
    drawing = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(a) print\n%%EOF\n"
    with pytest.raises(RecordRejected, match="it is not a readable image"):
        prepared(drawing, ImageRules())


# Of the published rule: round to the factor, then shrink with floor or grow with ceiling.
@pytest.mark.parametrize(
    ("rules", "size", "fitted"),
    [
        (ImageRules(factor=28), (1000, 700), (1008, 700)),
        (ImageRules(factor=28), (10, 10), (56, 56)),
        (ImageRules(max_pixels=1280 * 28 * 28), (4000, 3000), (1148, 840)),
        (ImageRules(min_pixels=256 * 28 * 28), (100, 100), (448, 448)),
        (ImageRules(min_pixels=1, factor=1), (33, 7), (33, 7)),
    ],
)
def test_the_size_is_that_of_the_published_rule(
    rules: ImageRules, size: tuple[int, int], fitted: tuple[int, int]
) -> None:
    assert rules.fitted(*size) == fitted


@given(st.integers(1, 6000), st.integers(1, 6000), st.integers(1, 64))
def test_a_fitted_size_is_a_multiple_within_the_bounds(width: int, height: int, factor: int) -> None:
    rules = ImageRules(factor=factor)
    if max(width, height) > MAX_RATIO * min(width, height):
        with pytest.raises(RecordRejected, match="ratio"):
            rules.fitted(width, height)
        return
    new_width, new_height = rules.fitted(width, height)
    assert new_width % factor == new_height % factor == 0
    assert new_width * new_height >= MIN_PIXELS
    # A side never goes below the factor, so that a strip may stay a little larger than allowed.
    assert new_width * new_height <= max(MAX_PIXELS, factor * max(new_width, new_height))


def test_resizing_makes_the_size_and_keeps_the_kind() -> None:
    rules = ImageRules(min_pixels=1, max_pixels=56 * 56)
    for kind, stays in (("JPEG", "image/jpeg"), ("PNG", "image/png"), ("GIF", "image/png")):
        picture = prepared(image(300, 200, kind), rules)
        assert size_of(picture.data) == (picture.width, picture.height) == rules.fitted(300, 200)
        assert picture.media_type == stays
        assert prepared(picture.data, rules).data is picture.data, "what fits is not worked on again"


def test_a_photo_lying_on_its_side_is_turned_before_it_is_resized() -> None:
    from PIL import Image

    sideways = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (280, 140)).save(sideways, "JPEG", exif=exif)
    picture = prepared(sideways.getvalue(), ImageRules(max_pixels=70 * 140))
    assert picture.height > picture.width


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a readable image"),
        (
            b"<svg xmlns='http://www.w3.org/2000/svg'><script>fetch('file:///etc/passwd')</script></svg>",
            "not a readable",
        ),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 200, "not a readable image"),
        (image()[:60], "broken"),
        (image(kind="JPEG")[:-200], "broken"),
        (claims(20_000, 20_000), "pixels"),
        (claims(9_500, 9_500), "pixels"),
        (claims(40, 30), "broken"),
        (claims(0, 0), "image"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_what_is_no_image_or_too_large_is_rejected_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(RecordRejected, match=reason):
        prepared(data, ImageRules())


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 200), st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]))
def test_damaged_images_are_rejected_and_never_crash(junk: bytes, place: int, kind: str) -> None:
    data = image(kind=kind)
    damaged = data[:place] + junk + data[place + len(junk) :]
    with suppress(RecordRejected):
        picture = prepared(damaged, ImageRules(max_pixels=28 * 28 * 4))
        assert picture.width * picture.height > 0


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="image_min_pixels 100 is more than image_max_pixels 50"):
        ImageRules(min_pixels=100, max_pixels=50)
