"""Spans of time in videos: when something happens."""

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from gage_eval.scoring.metrics.base import Score, metric

_TIME = r"(?:\d+:)?\d+:\d+(?:\.\d+)?|\d+(?:\.\d+)?"
_UNIT = r"(?:\s*(?:seconds|secs?|s)\b)?"
_SPAN = re.compile(rf"(?<![\d.:])({_TIME}){_UNIT}\s*(?:-|–|—|,|to\b|until\b|and\b)\s*({_TIME})(?![\d:])", re.IGNORECASE)


@metric("temporal_iou", value="iou", bounds=(0, 1), version=1)
def temporal_iou(
    prediction: str,
    answers: Sequence[str],
    *,
    threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None,
) -> Score:
    """Overlap of two spans of time, 0..1: the seconds in both by the seconds in either (Gao et al. 2017, TALL).

    A span is two times in order, in seconds or as ``m:ss`` or ``h:mm:ss``: ``12.5 - 18``, ``from 0:12 to 0:18``,
    ``[12.5, 18.0]``. The last one in the answer counts; an answer without one is unparsed. Of several references the
    nearest counts. The mean is mIoU; with ``threshold: 0.5`` a row has 1 if the overlap is at least that, else 0,
    and the mean is R@1, IoU=0.5.
    """
    wanted = [span for answer in answers if (span := _span(answer)) is not None and span[0] < span[1]]
    if not wanted:
        return Score.unscored("no reference is a span of time" if answers else "there is no reference")
    said = _span(prediction)
    if said is None:
        return Score.unparsed("the answer names no span of time")
    overlap = max(_overlap(said, span) for span in wanted)
    value = overlap if threshold is None else float(overlap >= threshold)
    return Score(value, metadata={"start": said[0], "end": said[1]})


def _span(text: str) -> tuple[float, float] | None:
    spans = ((_seconds(start), _seconds(end)) for start, end in _SPAN.findall(text))
    return next((span for span in reversed(list(spans)) if span[0] <= span[1]), None)


def _seconds(text: str) -> float:
    """Seconds of a time such as ``75``, ``1:15`` or ``0:01:15.5``."""
    total = 0.0
    for part in text.split(":"):
        total = 60 * total + float(part)
    return total


def _overlap(said: tuple[float, float], wanted: tuple[float, float]) -> float:
    both = min(said[1], wanted[1]) - max(said[0], wanted[0])
    return max(0.0, both) / (max(said[1], wanted[1]) - min(said[0], wanted[0]))
