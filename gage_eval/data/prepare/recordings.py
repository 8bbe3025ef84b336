"""Recordings for models: decoded and resampled once, so that all endpoints hear the same. PyAV is loaded on use."""

import io
import wave
from dataclasses import dataclass

from gage_eval.base.canonical import JsonValue
from gage_eval.data.sample.record import RecordRejected
from gage_eval.extend.extras import missing

# Containers that hold their own data. Playlists (HLS, concat, DASH) name other files, and data must open none.
_FORMATS = "wav,w64,aiff,au,mp3,flac,ogg,aac,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm"
_SAMPLE_BYTES = 2


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
        return {"rate": self.rate, "max_seconds": self.max_seconds}


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
        raise missing("a dataset with `audio_rate`", "av", "media") from None
    return __version__


def resampled(data: bytes, rules: RecordingRules) -> Recording:
    """The first audio track as 16-bit mono samples at the given rate. Several channels are mixed.

    Raises:
        RecordRejected: there is no audio track, it is broken, empty or too long.
        InputError: PyAV is not installed.
    """
    av_version()
    import av

    most = rules.max_seconds * rules.rate * _SAMPLE_BYTES
    samples = bytearray()
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
    try:
        with av.open(io.BytesIO(data), "r", options=options, metadata_errors="replace") as container:
            if not container.streams.audio:
                raise RecordRejected("it has no audio track.")
            resampler = av.AudioResampler(format="s16", layout="mono", rate=rules.rate)
            for frame in container.decode(container.streams.audio[0]):
                for made in resampler.resample(frame):
                    samples += bytes(made.planes[0])[: made.samples * _SAMPLE_BYTES]
                if len(samples) > most:
                    raise RecordRejected(f"it is longer than {rules.max_seconds:,} s (audio_max_seconds).")
            for made in resampler.resample(None):
                samples += bytes(made.planes[0])[: made.samples * _SAMPLE_BYTES]
    except (av.FFmpegError, ValueError, OverflowError, MemoryError) as error:
        raise RecordRejected(f"it is not a readable recording ({' '.join(str(error).split())[:120]}).") from None
    if not samples:
        raise RecordRejected("the recording is empty.")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(_SAMPLE_BYTES)
        file.setframerate(rules.rate)
        file.writeframes(samples)
    return Recording(out.getvalue(), len(samples) / _SAMPLE_BYTES / rules.rate)
