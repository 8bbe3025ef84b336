"""Recordings are decoded and resampled once to the same bytes; what cannot be heard is a reject in words."""

import io
import math
import re
import struct
import subprocess
import sys
import wave
from pathlib import Path

import av
import pytest

from gage_eval.data.prepare.recordings import RecordingRules, resampled, waveform
from gage_eval.data.sample.record import RecordRejected
from tests.support.documents import pdf, tone
from tests.support.videos import video

RULES = RecordingRules(rate=16_000, max_seconds=5)
AGAIN = """
import hashlib, sys
from gage_eval.data.prepare.recordings import RecordingRules, resampled
data = open(sys.argv[1], "rb").read()
print(hashlib.sha256(resampled(data, RecordingRules(rate=16_000)).data).hexdigest())
"""


def encoded(data: bytes, container: str, codec: str) -> bytes:
    """A recording in another container and codec."""
    out = io.BytesIO()
    with av.open(io.BytesIO(data)) as source, av.open(out, "w", format=container) as target:
        stream = target.add_stream(codec, rate=48_000)
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=48_000)
        for frame in source.decode(audio=0):
            for made in resampler.resample(frame):
                target.mux(stream.encode(made))
        target.mux(stream.encode(None))
    return out.getvalue()


def floats(*samples: float) -> bytes:
    """A WAV file of 32-bit floats."""
    data = struct.pack(f"<{len(samples)}f", *samples)
    form = struct.pack("<HHIIHH", 3, 1, 16_000, 64_000, 4, 32)
    sizes = struct.pack("<I", 36 + len(data)), struct.pack("<I", 16), struct.pack("<I", len(data))
    return b"RIFF" + sizes[0] + b"WAVEfmt " + sizes[1] + form + b"data" + sizes[2] + data


@pytest.mark.parametrize(
    ("container", "codec"),
    [("mp3", "mp3"), ("flac", "flac"), ("ogg", "libopus"), ("ipod", "aac"), ("wav", "pcm_f32le")],
)
def test_every_usual_form_becomes_mono_wav_of_the_same_length(container: str, codec: str) -> None:
    made = resampled(encoded(tone(1.0), container, codec), RULES)
    with wave.open(io.BytesIO(made.data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16_000)
        # Coders begin and end with some silence.
        assert abs(file.getnframes() - 16_000) < 2_500
    assert made.seconds == pytest.approx(1.0, abs=0.16)


def test_eight_channels_are_mixed_and_a_recording_at_the_rate_keeps_its_samples() -> None:
    assert resampled(tone(0.5, channels=8), RULES).seconds == pytest.approx(0.5, abs=0.01)
    plain = tone(0.5, rate=16_000, channels=1)
    with wave.open(io.BytesIO(plain)) as before, wave.open(io.BytesIO(resampled(plain, RULES).data)) as after:
        assert after.readframes(99_999) == before.readframes(99_999)


def test_another_process_makes_the_same_bytes(tmp_path: Path) -> None:
    file = tmp_path / "tone.mp3"
    file.write_bytes(encoded(tone(0.4), "mp3", "mp3"))
    runs = [
        subprocess.run([sys.executable, "-c", AGAIN, file], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1] != ""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "readable"),
        (b"ID3" + b"\xff" * 2_000, "readable"),
        (tone(0.3)[:60], "empty|readable"),
        (tone(6.0, rate=8_000, channels=1), "longer than 5 s"),
        (pdf("no sound"), "readable"),
        (b"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nfile:///etc/passwd\n", "readable"),
        (b"ffconcat version 1.0\nfile '/etc/passwd'\n", "readable"),
        (video(3), "no audio track"),
        (floats(0.1, math.nan, 0.2), "not numbers"),
        (floats(0.1, -math.inf), "infinite"),
        (encoded(floats(*[0.1] * 2_000, math.nan), "matroska", "pcm_f64le"), "not numbers"),
    ],
)
def test_what_is_no_recording_is_rejected_and_opens_nothing(data: bytes, words: str) -> None:
    with pytest.raises(RecordRejected, match=words):
        resampled(data, RULES)


@pytest.mark.parametrize("cut", range(0, 3_000, 271))
def test_a_torn_recording_is_heard_as_far_as_it_goes_or_rejected(cut: int) -> None:
    data = encoded(tone(0.3), "flac", "flac")
    try:
        assert resampled(data[:cut] + b"\0" * 40 + data[cut + 40 :], RULES).seconds <= 5.1
    except RecordRejected:
        return


def test_a_waveform_is_as_high_as_the_recording_is_loud_with_and_without_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(4_000)
        file.writeframes(struct.pack("<2400h", *[0] * 1200, *[16_384, -16_384] * 600))

    def heights(data: bytes) -> list[int]:
        return [int(height) for height in re.findall(rb"v(\d+)", waveform(data))]

    with_pyav = heights(out.getvalue())
    assert with_pyav == [1] * 120 + [21] * 120
    assert len(heights(encoded(tone(1.0), "mp3", "mp3"))) == 240
    monkeypatch.setitem(sys.modules, "av", None)
    assert heights(out.getvalue()) == with_pyav
    for broken in (b"ID3", b"", b"RIFF", out.getvalue()[:44], floats(0.5)):
        with pytest.raises(RecordRejected):
            waveform(broken)
