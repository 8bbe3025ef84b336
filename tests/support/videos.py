"""Videos that tests make, whose frames show their number."""

import io
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

import av
import numpy as np
from PIL import Image

SIDE, BLOCK = 64, 16
# The codecs that tests write, each with options that make it hard to count frames: B-frames, hidden frames.
CODECS: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "h264": ("mp4", "libx264", {"preset": "ultrafast", "bf": "3", "b_strategy": "0", "g": "12", "crf": "12"}),
    "vp9": ("webm", "libvpx-vp9", {"deadline": "realtime", "auto-alt-ref": "1", "lag-in-frames": "9", "crf": "10"}),
    "mjpeg": ("avi", "mjpeg", {"q": "2"}),
    "h264-avi": ("avi", "libx264", {"preset": "ultrafast", "bf": "3", "b_strategy": "0", "crf": "12"}),
    "interlaced": ("mp4", "libx264", {"preset": "ultrafast", "bf": "3", "crf": "12", "x264-params": "tff=1"}),
    "gif": ("gif", "gif", {}),
}
_PIXELS = {"mjpeg": "yuvj420p", "gif": "rgb8"}


def video(
    frames: int | Iterable[int], codec: str = "h264", *, gaps: Iterable[int] = (), width: int = SIDE, rate: int = 25
) -> bytes:
    """A video of frames that show their number.

    Args:
        frames: how many, or the numbers.
        codec: one of `CODECS`.
        gaps: milliseconds from each frame to the next, where they differ.
        width: pixels; a wide video has its number at the left.
        rate: frames a second, where there are no gaps.
    """
    container, name, options = CODECS[codec]
    out, steps = io.BytesIO(), iter(gaps)
    with av.open(out, "w", format=container) as target:
        stream = target.add_stream(name, rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = width, SIDE, _PIXELS.get(name, "yuv420p")
        unit = Fraction(1, 1_000) if gaps else Fraction(1, rate)
        stream.codec_context.time_base = unit
        time = 0
        for number in range(frames) if isinstance(frames, int) else frames:
            frame = _frame(number, width, stream.pix_fmt)
            frame.pts, frame.time_base = time, unit
            target.mux(stream.encode(frame))
            time += next(steps) if gaps else 1
        target.mux(stream.encode(None))
    return out.getvalue()


def number_of(picture: bytes) -> int:
    """The number that a frame shows."""
    grey = np.asarray(Image.open(io.BytesIO(picture)).convert("L").crop((0, 0, SIDE, SIDE)), np.float64)
    blocks = grey.reshape(SIDE // BLOCK, BLOCK, SIDE // BLOCK, BLOCK).mean(axis=(1, 3)).ravel()
    return sum(1 << place for place, light in enumerate(blocks) if light > 127)


def turned(data: bytes, angle: int) -> bytes:
    """An MP4 that asks players to turn it clockwise by 90, 180 or 270 degrees."""
    cosine, sine = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[angle]
    header = data.index(b"tkhd")
    # ISO 14496-12, 8.3.2: the matrix stands 40 bytes after the type of version 0.
    start = header + 4 + 40
    matrix = (cosine, sine, 0, -sine, cosine, 0)
    words = b"".join((value * 65_536).to_bytes(4, "big", signed=True) for value in matrix)
    return data[:start] + words + data[start + 24 :]


@lru_cache
def _frame(number: int, width: int, pixels: str) -> av.VideoFrame:
    lights = [255 * (number >> place & 1) for place in range((SIDE // BLOCK) ** 2)]
    square = np.kron(np.array(lights, np.uint8).reshape(SIDE // BLOCK, -1), np.ones((BLOCK, BLOCK), np.uint8))
    whole = np.full((SIDE, width, 3), 128, np.uint8)
    whole[:, :SIDE] = square[:, :, None]
    return av.VideoFrame.from_ndarray(whole, format="rgb24").reformat(format=pixels)
