"""The frames that are asked are exactly those that the rule names; what cannot be seen is a reject in words."""

import io
import subprocess
import sys
from bisect import bisect_right
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gage_eval.data.prepare import videos
from gage_eval.data.prepare.images import ImageRules
from gage_eval.data.prepare.videos import VideoFrame, VideoRules, sampled
from gage_eval.data.sample.record import RecordRejected
from tests.support.documents import pdf, tone
from tests.support.videos import CODECS, number_of, turned, video

GAPS = [17 + place * 37 % 90 for place in range(60)]
# GIF has hundredths of a second, and AVI no times of B-frames.
INEXACT = ("gif", "h264-avi")
MILLISECOND = Fraction(1, 1_000)
AGAIN = """
import hashlib, sys
from gage_eval.data.prepare.images import ImageRules
from gage_eval.data.prepare.videos import VideoRules, sampled
data = open(sys.argv[1], "rb").read()
print(sampled(data, VideoRules(5), ImageRules(), lambda frame: hashlib.sha256(frame.picture.data).hexdigest()))
"""
# The peak of a process after a small video, and after the one that is named: in KiB.
PEAK = """
import resource, sys
from gage_eval.data.prepare.images import ImageRules
from gage_eval.data.prepare.videos import VideoRules, sampled
for file, frames in ((sys.argv[1], 1), (sys.argv[2], 1000)):
    data = open(file, "rb").read()
    kept = sampled(data, VideoRules(frames), ImageRules(), lambda frame: frame.index)
    print(len(kept), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def frames_of(data: bytes, rules: VideoRules, images: ImageRules = ImageRules()) -> list[VideoFrame]:  # noqa: B008
    return sampled(data, rules, images, lambda frame: frame)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("gaps", [[], GAPS], ids=["even", "variable"])
def test_the_frames_that_are_sent_show_the_indices_that_the_rule_names(codec: str, gaps: list[int]) -> None:
    data = video(60, codec, gaps=gaps)
    times = [sum((gaps or [40] * 60)[:place]) for place in range(60)]
    for rules in (VideoRules(7), VideoRules(100), VideoRules(50, fps=2), VideoRules(5, fps=30)):
        frames = frames_of(data, rules)
        assert [frame.index for frame in frames] == [number_of(frame.picture.data) for frame in frames]
        if gaps and codec in INEXACT:
            continue
        assert [frame.index for frame in frames] == rules.chosen(times, MILLISECOND)
        assert [frame.seconds for frame in frames] == pytest.approx(
            [times[frame.index] / 1_000 for frame in frames], abs=0.001
        )


def test_evenly_spread_frames_are_those_of_vllm() -> None:
    for total, frames in ((60, 7), (100, 32), (10_000, 768), (3, 2), (5, 5), (9, 4)):
        named = VideoRules(frames).chosen(range(total), MILLISECOND)
        assert named == np.linspace(0, total - 1, frames, dtype=int).tolist()
    assert VideoRules(1).chosen(range(9), MILLISECOND) == [0]
    assert VideoRules(9).chosen(range(4), MILLISECOND) == [0, 1, 2, 3]


@given(
    st.lists(st.integers(1, 3_000), min_size=1, max_size=40),
    st.integers(1, 12),
    st.one_of(st.none(), st.sampled_from([0.001, 0.5, 1.0, 2.5, 29.97, 240.0])),
    st.integers(-5_000, 5_000),
)
def test_named_frames_are_in_order_each_once_and_no_more_than_asked(
    gaps: list[int], most: int, fps: float | None, start: int
) -> None:
    pts = [start + sum(gaps[:place]) for place in range(len(gaps))]
    named = VideoRules(most, fps).chosen(pts, MILLISECOND)
    assert named == sorted(set(named))
    assert 1 <= len(named) <= most
    assert 0 == named[0] <= named[-1] < len(pts)
    if fps is None:
        assert len(named) == min(most, len(pts))
    elif (pts[-1] - pts[0]) * fps / 1_000 < most - 1:
        wanted = [1_000 * place / Fraction(str(fps)) for place in range(most)]
        assert named == sorted({bisect_right(pts, start + time) - 1 for time in wanted if start + time <= pts[-1]})


@pytest.mark.parametrize(("angle", "corner"), [(90, "right"), (180, "right, bottom"), (270, "bottom")])
def test_a_turned_video_is_sent_upright(angle: int, corner: str) -> None:
    data = turned(video([0] + [0xFFFF] * 3, width=128), angle)
    first, last = frames_of(data, VideoRules(2))
    assert (first.picture.width, first.picture.height) == ((128, 64) if angle == 180 else (64, 128))
    light = np.asarray(Image.open(io.BytesIO(last.picture.data)).convert("L"), float)
    quarter = light[-32:] if "bottom" in corner else light[:32]
    shown = quarter[:, -32:] if "right" in corner else quarter[:, :32]
    assert shown.mean() > 240


def test_frames_are_resized_as_images_are() -> None:
    (frame,) = frames_of(video(3, width=256), VideoRules(1), ImageRules(max_pixels=56 * 56 * 2))
    assert (frame.picture.width, frame.picture.height, frame.picture.media_type) == (140, 28, "image/jpeg")


def test_other_processes_send_the_same_bytes(tmp_path: Path) -> None:
    file = tmp_path / "clip.mp4"
    file.write_bytes(video(30))
    runs = [
        subprocess.run([sys.executable, "-c", AGAIN, file], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1] != ""


def test_memory_does_not_grow_with_the_frames(tmp_path: Path) -> None:
    small, large = tmp_path / "small.mp4", tmp_path / "large.mp4"
    small.write_bytes(video(3))
    large.write_bytes(video([number % 64 for number in range(10_000)]))
    done = subprocess.run([sys.executable, "-c", PEAK, small, large], capture_output=True, text=True, check=True)
    (_, before), (kept, after) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert kept == 1_000
    assert after - before < 100 * 1024


def with_sound_and_cover() -> bytes:
    """A recording with the picture of its cover, which is a track of video to FFmpeg."""
    out = io.BytesIO()
    with av.open(io.BytesIO(tone(0.3))) as source, av.open(out, "w", format="matroska") as target:
        stream = target.add_stream("flac", rate=44_100)
        cover = io.BytesIO()
        Image.new("RGB", (32, 32)).save(cover, "PNG")
        target.add_attachment("cover.png", "image/png", cover.getvalue())
        for frame in source.decode(audio=0):
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "readable"),
        (b"\0\0\0\x18ftypmp42" + b"\xff" * 2_000, "readable"),
        (video(9)[:200], "readable|no frames|no video"),
        (video(3, gaps=[900_000, 4_000_000, 1]), "longer than 3,600 s"),
        (pdf("no video"), r"readable video \(Invalid data"),
        (tone(0.2), "readable"),
        (with_sound_and_cover(), "no video track"),
        (b"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n", "readable"),
        (b"ffconcat version 1.0\nfile '/etc/passwd'\n", "readable"),
        (b"1\n00:00:01,000 --> 00:00:02,000\n<img src='file:///etc/passwd'>\n", "readable"),
        (b'<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>file:///etc/passwd</BaseURL></MPD>', "readable"),
    ],
)
def test_what_is_no_video_is_rejected_and_opens_nothing(data: bytes, words: str) -> None:
    with pytest.raises(RecordRejected, match=words):
        frames_of(data, VideoRules(4))


def test_bombs_are_rejected_before_they_are_decoded() -> None:
    many = VideoRules(4, max_seconds=1)
    with pytest.raises(RecordRejected, match="more than 240 frames"):
        frames_of(video(242, gaps=[1] * 242), many)
    # Where the sizes stand: in the first frame of MJPEG, in the header of GIF.
    picture, gif = video(2, "mjpeg"), video(2, "gif")
    size = picture.index(b"\xff\xc0") + 5
    for wide in (
        picture.replace(picture[size - 5 : size + 4], picture[size - 5 : size] + b"\x40\x00\x30\x00"),
        gif[:6] + b"\xff\xff\xff\x30" + gif[10:],
    ):
        with pytest.raises(RecordRejected, match=r"pixels|not a readable video"):
            frames_of(wide, VideoRules(4))


def test_a_gif_of_very_many_frames_is_counted_and_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = video(2, "gif")
    # From the first frame's control block to the trailer.
    head, frames = whole[: whole.index(b"\x21\xf9")], whole[whole.index(b"\x21\xf9") : -1]
    monkeypatch.setattr(videos, "_decoded", None)
    with pytest.raises(RecordRejected, match="longer than 60 s"):
        frames_of(head + frames * 5_000 + b";", VideoRules(4, max_seconds=60))


@pytest.mark.parametrize("codec", ["h264", "vp9", "mjpeg", "gif"])
def test_a_torn_video_is_seen_as_far_as_it_goes_or_rejected(codec: str) -> None:
    data = video(24, codec)
    for part in range(13):
        cut = len(data) * part // 13
        for torn in (data[:cut], data[:cut] + b"\xff" * 40 + data[cut + 40 :]):
            try:
                assert 1 <= len(frames_of(torn, VideoRules(4))) <= 4
            except RecordRejected:
                continue
