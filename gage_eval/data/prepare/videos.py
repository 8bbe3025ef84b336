"""Videos for models: the frames that a rule names, as images. PyAV is loaded on use."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeVar

from gage_eval.base.canonical import JsonValue
from gage_eval.data.prepare.images import ImageRules, Picture, as_jpeg, pillow_version
from gage_eval.data.prepare.recordings import MOST_PIXELS, container_of
from gage_eval.data.sample.record import RecordRejected

if TYPE_CHECKING:
    import av
    from av.container import InputContainer
    from av.video.stream import VideoStream
    from PIL.Image import Image

# Containers that hold their own frames. Playlists (HLS, concat, DASH) name other files, and data must open none.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ogg,asf,gif"
_MOST_FPS = 240

T = TypeVar("T")


@dataclass(frozen=True)
class VideoRules:
    """Which frames of a video are sent, as JPEG images (quality 95) in the order of their times.

    Attributes:
        frames: the number of frames; with `fps` the most.
        fps: frames a second; None for evenly spread frames, however long the video is.
        max_seconds: a longer video rejects its row.
        times: whether a text with its time stands before each frame.
        form: what is sent: the frames as images, or one video of JPEG images.
    """

    frames: int
    fps: float | None = None
    max_seconds: int = 3_600
    times: bool = False
    form: Literal["images", "video"] = "images"

    def material(self) -> JsonValue:
        """What determines the frames that are sent; ``version`` is that of the rule below."""
        rule: dict[str, JsonValue] = {"frames": self.frames, "fps": self.fps, "max_seconds": self.max_seconds}
        form: dict[str, JsonValue] = {} if self.form == "images" else {"form": self.form}
        return {"version": 1, **rule, "times": self.times, **form}

    def chosen(self, pts: Sequence[int], time_base: Fraction) -> list[int]:
        """The indices of the frames that are sent, in order and each once.

        Without `fps`, frame ``k * (total - 1) // (frames - 1)`` for each k: vLLM's rule for evenly spread frames, in
        whole numbers. With `fps`, the frame that is shown at each of the times 0, 1/fps, 2/fps, … after the first
        frame; if these are more than `frames`, the times are spread evenly from the first frame to the last.

        Args:
            pts: presentation times of all frames, ascending and in units of the time base. Not empty.
            time_base: seconds.
        """
        total = len(pts)
        if self.fps is None:
            if self.frames == 1:
                return [0]
            places = range(self.frames) if self.frames < total else ()
            return [place * (total - 1) // (self.frames - 1) for place in places] or list(range(total))
        span = (pts[-1] - pts[0]) * time_base
        step = 1 / Fraction(str(self.fps))
        count = span // step + 1
        if count > self.frames:
            count, step = self.frames, span / max(1, self.frames - 1)
        shown = (bisect_right(pts, pts[0] + place * step / time_base) - 1 for place in range(count))
        return list(dict.fromkeys(shown))


@dataclass(frozen=True, slots=True)
class VideoFrame:
    """A frame of a video.

    Attributes:
        index: its place among all frames, in the order in which they are shown; 0 is the first.
        seconds: its time after the first frame.
        picture: the image that is sent, upright.
    """

    index: int
    seconds: float
    picture: Picture


def sampled(data: bytes, rules: VideoRules, images: ImageRules, keep: Callable[[VideoFrame], T]) -> list[T]:
    """What ``keep`` makes of the frames that the rules name, in order. One frame is in memory at a time.

    Frames are decoded from the first on and counted, because the counts of containers are not reliable and seeking is
    not exact. ``keep`` may also be called for frames that turn out not to be the ones named; they are not returned.

    Raises:
        RecordRejected: there is no video track, it is broken, empty, too long or too large, or a named frame is
            damaged.
        InputError: PyAV or Pillow is not installed.
    """
    pillow_version()
    with container_of(data, _FORMATS, "video") as container:
        stream = _track(container)
        packets = [packet.pts for packet in _at_most(rules, container.demux(stream)) if packet.size]
        guess = _clock(packets, stream, rules)
    # The times of the packets nearly always are those of the frames, which spares decoding twice.
    kept, clock = _decoded(data, guess, rules, images, keep)
    return kept if clock == guess else _decoded(data, clock, rules, images, keep)[0]


@dataclass(frozen=True)
class _Clock:
    """The times of all frames, ascending, in units of the time base (seconds)."""

    pts: list[int]
    time_base: Fraction

    def seconds(self, index: int) -> float:
        return round(float((self.pts[index] - self.pts[0]) * self.time_base), 3)


def _decoded(
    data: bytes, clock: _Clock, rules: VideoRules, images: ImageRules, keep: Callable[[VideoFrame], T]
) -> tuple[list[T], _Clock]:
    """What is kept if the frames have these times, and the times that they have."""
    wanted = set(rules.chosen(clock.pts, clock.time_base))
    kept: list[T] = []
    pts = []
    with container_of(data, _FORMATS, "video") as container:
        stream = _track(container)
        for index, frame in enumerate(_at_most(rules, container.decode(stream))):
            pts.append(frame.pts)
            if index in wanted:
                if frame.is_corrupt:
                    raise RecordRejected(f"frame {index:,} is damaged.")
                kept.append(keep(VideoFrame(index, clock.seconds(index), as_jpeg(_upright(frame), images))))
        return kept, _clock(pts, stream, rules)


def _track(container: "InputContainer") -> "VideoStream":
    """The first track that shows more than a cover."""
    from av.stream import Disposition

    for stream in container.streams.video:
        if not stream.disposition & Disposition.attached_pic:
            break
    else:
        raise RecordRejected("it has no video track.")
    codec = stream.codec_context
    if codec is None:
        raise RecordRejected("there is no decoder for its video track.")
    # What a thread more does must not show in a frame.
    codec.thread_count = 1
    codec.options = {**codec.options, "max_pixels": str(MOST_PIXELS)}
    if codec.width * codec.height > MOST_PIXELS:
        raise RecordRejected(f"the video has {codec.width} x {codec.height} pixels, more than {MOST_PIXELS:,} in all.")
    return stream


def _clock(pts: list[int | None], stream: "VideoStream", rules: VideoRules) -> _Clock:
    """The times of frames by their presentation times; by their number where some have none.

    Frames come in the order in which they are shown. Where their times do not, as in AVI with B-frames, these are the
    times at which they were decoded, and the first frame is shown at the first of them.
    """
    if not pts:
        raise RecordRejected("the video has no frames.")
    known = [place for place in pts if place is not None]
    if len(known) == len(pts) and stream.time_base:
        clock = _Clock(sorted(known), stream.time_base)
    elif stream.average_rate:
        clock = _Clock(list(range(len(pts))), 1 / stream.average_rate)
    else:
        raise RecordRejected("the frames of the video have no times.")
    if (clock.pts[-1] - clock.pts[0]) * clock.time_base > rules.max_seconds:
        raise RecordRejected(f"it is longer than {rules.max_seconds:,} s (video_max_seconds).")
    return clock


def _at_most(rules: VideoRules, items: Iterable[T]) -> Iterator[T]:
    most = rules.max_seconds * _MOST_FPS
    for number, item in enumerate(items):
        if number > most:
            raise RecordRejected(f"it has more than {most:,} frames, {_MOST_FPS} for a second of video_max_seconds.")
        yield item


def _upright(frame: "av.VideoFrame") -> "Image":
    """The frame as an RGB image, turned as the file says."""
    from PIL import Image

    turns = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
    angle = frame.rotation % 360
    if angle and angle not in turns:
        raise RecordRejected(f"its frames are to be turned by {angle} degrees, not by a right angle.")
    image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
    return image.transpose(turns[angle]) if angle else image
