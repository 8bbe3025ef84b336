"""The trend of a task's scores as one SVG picture: a dot with its interval per run, and the baseline as a line.

The picture stands alone, as in a page of the Prefect UI, where its own colours are legible on light and on dark ground.
On our pages the stylesheet overrides them by the classes of its parts. The newest run is at the right, next to the
axis, so that it is in sight where the picture is wider than the screen.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from markupsafe import escape

from gage_eval.report.summary import format_value

MOST_POINTS = 60

_STEP, _TALL = 22, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 24, 56, 20, 44
_LEAST_WIDTH = 320
_INK, _GRID, _DOT, _BASE = "#808894", "#80889440", "#2f7ed8", "#d9822b"
_LABELS = 12


@dataclass(frozen=True)
class TrendPoint:
    """A task's number in one run.

    Attributes:
        value, low, high: the number with its 95 % interval; None where unknown.
    """

    created: datetime
    run_id: str
    task_id: str
    metric: str
    value: float | None
    low: float | None
    high: float | None

    def bar(self, width: int) -> str:
        """The interval (─) and the value (●) between 0 and 1, as text of that width; empty for other numbers."""
        if self.value is None or not 0 <= self.value <= 1:
            return ""
        low, high = (self.value if end is None else min(1.0, max(0.0, end)) for end in (self.low, self.high))
        last_place = width - 3
        first, place, last = (round(x * last_place) for x in (low, self.value, high))
        line = [" "] * (last_place + 1)
        line[first : last + 1] = "─" * (last - first + 1)
        line[place] = "●"
        return f"│{''.join(line)}│"

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "created": self.created.isoformat()}


def trend_chart(points: Sequence[TrendPoint], baseline: float | None, title: str) -> str:
    """The newest points of one task as SVG; an empty text where none has a score.

    Args:
        points: of one task, oldest first.
        baseline: its score, drawn as a line.
        title: what is shown, for people who do not see the picture too.
    """
    shown = [point for point in points if point.value is not None][-MOST_POINTS:]
    if not shown:
        return ""
    ends = [end for point in shown for end in (point.value, point.low, point.high)]
    low, middle, high = axis([end for end in (*ends, baseline) if end is not None])

    def y(value: float) -> float:
        return _TOP + _TALL * (high - value) / (high - low)

    width = max(_LEFT + _STEP * len(shown) + _RIGHT, _LEAST_WIDTH)
    height = _TOP + _TALL + _BOTTOM
    # Few points stand at the right, too.
    first = width - _RIGHT - _STEP * (len(shown) - 0.5)
    every = -(-len(shown) // _LABELS)
    dots = [_point(point, first + _STEP * place, y) for place, point in enumerate(shown)]
    days = [
        _day(point, first + _STEP * place) for place, point in enumerate(shown) if (len(shown) - 1 - place) % every == 0
    ]
    return (
        f'<svg class="trend" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="11">'
        f"<title>{escape(title)}</title>"
        f'<g class="grid" stroke="{_GRID}">{"".join(_line(y(value), width) for value in (low, middle, high))}</g>'
        f'<g class="ink" fill="{_INK}">{"".join(_tick(value, y(value), width) for value in (low, middle, high))}'
        f'<g text-anchor="end">{"".join(days)}</g></g>'
        f"{'' if baseline is None else _baseline(baseline, y(baseline), width)}"
        f'<g class="points" stroke="{_DOT}" stroke-width="2" fill="{_DOT}">{"".join(dots)}</g></svg>'
    )


def axis(values: Sequence[float]) -> tuple[float, float, float]:
    """The two ends and the middle of an axis with some room around the values."""
    low, high = min(values), max(values)
    room = (high - low) * 0.1 or abs(high) * 0.1 or 0.1
    return low - room, (low + high) / 2, high + room


def _line(y: float, width: int) -> str:
    return f'<line x1="8" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _tick(value: float, y: float, width: int) -> str:
    return f'<text x="{width - _RIGHT + 6}" y="{y + 4:.1f}">{format_value(value)}</text>'


def _baseline(value: float, y: float, width: int) -> str:
    right = width - _RIGHT
    return (
        f'<g class="baseline" stroke="{_BASE}" stroke-width="1.5"><line x1="8" x2="{right}" y1="{y:.1f}" '
        f'y2="{y:.1f}" stroke-dasharray="5 4"/><text x="{right}" y="12" text-anchor="end" stroke="none" '
        f'fill="{_BASE}">┅ baseline {format_value(value)}</text></g>'
    )


def _point(point: TrendPoint, x: float, y: Callable[[float], float]) -> str:
    assert point.value is not None
    bar = ""
    if point.low is not None and point.high is not None:
        bar = f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{y(point.low):.1f}" y2="{y(point.high):.1f}" stroke-opacity="0.5"/>'
    tip = escape(f"{point.run_id}: {format_value(point.value)}")
    return f'<g><title>{tip}</title>{bar}<circle cx="{x:.0f}" cy="{y(point.value):.1f}" r="3"/></g>'


def _day(point: TrendPoint, x: float) -> str:
    y = _TOP + _TALL + 14
    return f'<text x="{x:.0f}" y="{y}" transform="rotate(-45 {x:.0f} {y})">{point.created:%m-%d}</text>'
