"""Recordings for models: decoded and resampled once, so that all endpoints hear the same. PyAV is loaded on use."""

import io
import wave
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected
from gage_eval.extend.extras import missing

if TYPE_CHECKING:
    from av import AudioFrame
    from av.container import InputContainer

# Containers that hold their own data. Playlists (HLS, concat, DASH) name other files, and data must open none.
_FORMATS = "wav,w64,aiff,au,mp3,flac,ogg,aac,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm"
_SAMPLE_BYTES = 2
_SHAPE_RATE, _SHAPE_SECONDS, _SHAPE_COLUMNS, _SHAPE_HALF = 4_000, 1_800, 240, 20
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
        why = (isinstance(error, av.FFmpegError) and error.strerror) or str(error)
        raise RecordRejected(f"it is not a readable {what} ({' '.join(why.split())[:120]}).") from None


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


def waveform(data: bytes) -> bytes:
    """The loudness of a recording over its whole length as an SVG picture: 240 columns, each as high as its peak.

    Without PyAV, only WAV files of 16-bit samples have one.

    Raises:
        RecordRejected: the recording cannot be decoded, is empty, or is longer than half an hour.
    """
    with suppress(InputError):
        data = resampled(data, RecordingRules(_SHAPE_RATE, _SHAPE_SECONDS)).data
    try:
        with wave.open(io.BytesIO(data), "rb") as file:
            if file.getsampwidth() != _SAMPLE_BYTES:
                raise RecordRejected("its samples do not have 16 bits.")
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    except (wave.Error, EOFError, ValueError):
        raise RecordRejected("it is not a readable WAV file.") from None
    if not len(samples):
        raise RecordRejected("the recording is empty.")
    starts = np.unique(np.linspace(0, len(samples), _SHAPE_COLUMNS, endpoint=False, dtype=np.int64))
    peaks = np.maximum.reduceat(np.abs(samples.astype(np.int32)), starts) * _SHAPE_HALF // 2**15
    lines = "".join(f"M{x} {_SHAPE_HALF - peak}v{2 * peak + 1}" for x, peak in enumerate(peaks.tolist()))
    box = f"-.5 0 {len(starts)} {2 * _SHAPE_HALF + 1}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" preserveAspectRatio="none">'
        f'<path d="{lines}" stroke="#7a8794"/></svg>'
    ).encode()


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
