"""The trend of a task's scores as one SVG picture: a dot with its interval per run, and the baseline as a line.

The picture stands alone, in a page that is not ours: it has colours of its own, which are legible on light and on dark
ground.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape

from gage_eval.regression.trend import TrendPoint
from gage_eval.report.summary import format_value

_STEP, _TALL = 22, 180
_LEFT, _TOP, _BOTTOM = 56, 16, 44
_MOST = 60
_INK, _GRID, _DOT, _BASE = "#808894", "#80889440", "#2f7ed8", "#d9822b"
_LABELS = 12


def trend_chart(points: Sequence[TrendPoint], baseline: float | None, title: str) -> str:
    """The newest points of one task as SVG; an empty text where none has a score.

    Args:
        points: of one task, oldest first.
        baseline: its score, drawn as a line.
        title: what is shown, for people who do not see the picture too.
    """
    shown = [point for point in points if point.value is not None][-_MOST:]
    if not shown:
        return ""
    low, high = _range(shown, baseline)

    def y(value: float) -> float:
        return _TOP + _TALL * (high - value) / (high - low)

    width = max(_LEFT + _STEP * len(shown) + 16, 320)
    parts = [_axis(value, y(value), width) for value in (low, (low + high) / 2, high)]
    if baseline is not None:
        at = y(baseline)
        parts.append(
            f'<line x1="{_LEFT}" x2="{width - 8}" y1="{at:.1f}" y2="{at:.1f}" stroke="{_BASE}" stroke-width="1.5" '
            f'stroke-dasharray="5 4"/><text x="{width - 8}" y="{at - 5:.1f}" text-anchor="end" fill="{_BASE}">'
            f"baseline {format_value(baseline)}</text>"
        )
    every = -(-len(shown) // _LABELS)
    for place, point in enumerate(shown):
        parts.append(_point(point, _LEFT + _STEP * (place + 0.5), y, label=place % every == 0))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_TOP + _TALL + _BOTTOM}" role="img" '
        f'font-family="sans-serif" font-size="11"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _range(points: Sequence[TrendPoint], baseline: float | None) -> tuple[float, float]:
    ends = [end for one in points for end in (one.value, one.low, one.high) if end is not None]
    ends += [] if baseline is None else [baseline]
    low, high = min(ends), max(ends)
    margin = (high - low) * 0.1 or abs(high) * 0.1 or 0.1
    return low - margin, high + margin


def _axis(value: float, y: float, width: int) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{_INK}">{format_value(value)}</text>'
    )


def _point(point: TrendPoint, x: float, y: Callable[[float], float], *, label: bool) -> str:
    assert point.value is not None
    tip = escape(f"{point.run_id}: {format_value(point.value)}")
    bar = ""
    if point.low is not None and point.high is not None:
        bar = (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(point.low):.1f}" y2="{y(point.high):.1f}" stroke="{_DOT}" '
            'stroke-width="2" stroke-opacity="0.5"/>'
        )
    text = ""
    if label:
        text = (
            f'<text x="{x:.1f}" y="{_TOP + _TALL + 14}" fill="{_INK}" text-anchor="end" '
            f'transform="rotate(-45 {x:.1f} {_TOP + _TALL + 14})">{_day(point.created)}</text>'
        )
    return (
        f'<g><title>{tip}</title>{bar}<circle cx="{x:.1f}" cy="{y(point.value):.1f}" r="3.5" fill="{_DOT}"/>{text}</g>'
    )


def _day(when: datetime) -> str:
    return f"{when:%m-%d}"
