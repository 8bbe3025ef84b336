"""Recordings for models: decoded and resampled once, so that all endpoints hear the same. PyAV is loaded on use."""

import io
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue
from gage_eval.data.sample.record import RecordRejected
from gage_eval.extend.extras import missing

if TYPE_CHECKING:
    from av import AudioFrame
    from av.container import InputContainer

# Containers that hold their own data. Playlists (HLS, concat, DASH) name other files, and data must open none.
_FORMATS = "wav,w64,aiff,au,mp3,flac,ogg,aac,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm"
_SAMPLE_BYTES = 2
_FLOATS = {"flt": pa.float32(), "dbl": pa.float64()}
# Of a frame of video: 7680 x 4320. A decoder may hold 16 frames.
MOST_PIXELS = 33_177_600


@dataclass(frozen=True)
class RecordingRules:
    """How a recording is sent: as a WAV file of 16-bit mono samples.

    Attributes:
        rate: samples per second.
        max_seconds: a longer recording rejects its row.
    """

    rate: int = 16_000
    max_seconds: int = 600

    def material(self) -> JsonValue:
        """What determines the bytes that are sent."""
        return {"rate": self.rate, "max_seconds": self.max_seconds, "recipe": 2}


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording ready to be stored: the bytes of a WAV file, and its length."""

    data: bytes
    seconds: float


def av_version() -> str:
    """The version of PyAV, whose FFmpeg decides the samples.

    Raises:
        InputError: it is not installed.
    """
    try:
        from av import __version__
    except ImportError:
        raise missing("a dataset with `audio_rate`, `video_frames` or `video_fps`", "av", "media") from None
    return __version__


@contextmanager
def container_of(data: bytes, formats: str, what: str) -> "Iterator[InputContainer]":
    """The container that the bytes hold, opened. It can open no other file and no address.

    Args:
        data: the bytes of a file.
        formats: the formats that are tried, as FFmpeg names them.
        what: what it should be, for people.

    Raises:
        RecordRejected: it is in no such format, or what is read of it in the block is broken.
        InputError: PyAV is not installed.
    """
    av_version()
    import av

    # Opening decodes the first frames of tracks whose headers do not say enough.
    options = {"format_whitelist": formats, "protocol_whitelist": "none", "max_pixels": str(MOST_PIXELS)}
    try:
        with av.open(io.BytesIO(data), "r", options=options, metadata_errors="replace") as container:
            yield container
    except (av.FFmpegError, ValueError, OverflowError, MemoryError) as error:
        raise RecordRejected(f"it is not a readable {what} ({' '.join(str(error).split())[:120]}).") from None


def _check_finite(frame: "AudioFrame") -> None:
    """Refuse samples that are not numbers: what they become depends on the processor."""
    kind = _FLOATS.get(frame.format.packed.name)
    if kind is None:
        return
    count = frame.samples * (1 if frame.format.is_planar else frame.layout.nb_channels)
    for plane in frame.planes:
        samples = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(plane)])
        if not pc.all(pc.is_finite(samples)).as_py():
            raise RecordRejected("some of its samples are infinite or not numbers (NaN).")


def resampled(data: bytes, rules: RecordingRules) -> Recording:
    """The first audio track as 16-bit mono samples at the given rate. Several channels are mixed.

    Raises:
        RecordRejected: there is no audio track, it is broken, empty or too long, or has samples that are not finite.
        InputError: PyAV is not installed.
    """
    most = rules.max_seconds * rules.rate * _SAMPLE_BYTES
    samples = bytearray()
    with container_of(data, _FORMATS, "recording") as container:
        from av import AudioResampler

        if not container.streams.audio:
            raise RecordRejected("it has no audio track.")
        resampler = AudioResampler(format="s16", layout="mono", rate=rules.rate)
        for frame in container.decode(container.streams.audio[0]):
            _check_finite(frame)
            for made in resampler.resample(frame):
                samples += bytes(made.planes[0])[: made.samples * _SAMPLE_BYTES]
            if len(samples) > most:
                raise RecordRejected(f"it is longer than {rules.max_seconds:,} s (audio_max_seconds).")
        for made in resampler.resample(None):
            samples += bytes(made.planes[0])[: made.samples * _SAMPLE_BYTES]
    if not samples:
        raise RecordRejected("the recording is empty.")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(_SAMPLE_BYTES)
        file.setframerate(rules.rate)
        file.writeframes(samples)
    return Recording(out.getvalue(), len(samples) / _SAMPLE_BYTES / rules.rate)
