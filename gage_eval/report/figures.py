"""Figures for papers and slides as SVG that needs nothing else: bars with intervals, differences, trends.

The colours are legible on white paper; on our pages the stylesheet overrides them by the classes of the parts.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from markupsafe import escape

from gage_eval.report.console import clean, one_line
from gage_eval.report.summary import GroupScore, MetricSummary, format_value, signed_text
from gage_eval.report.trend_chart import TrendPoint, trend_chart

_NAMESPACE = 'xmlns="http://www.w3.org/2000/svg"'
_INK, _SOFT, _GRID, _BAR, _WHISKER, _DOT = "#1b1f24", "#5b6570", "#d9dde1", "#a9c4ea", "#2b4a75", "#1f5fbf"
_ROW, _PLOT, _VALUE, _TOP = 22, 420, 90, 34
_LETTER, _LONGEST_LABEL = 7, 44


@dataclass(frozen=True)
class Mark:
    """A number with its interval; None where unknown. A rating that does not exist is infinite, as an end may be."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, label: str, score: MetricSummary | GroupScore) -> "Mark":
        """A score with the interval that is shown of it."""
        return cls(label, score.value, *(score.ends or (None, None)))

    @property
    def ends(self) -> list[float]:
        """What the scale must hold."""
        return [end for end in (self.value, self.low, self.high) if end is not None and math.isfinite(end)]


Panel = tuple[str, Sequence[Mark]]
"""A title, and the marks that share a scale."""


def interval_figure(title: str, panels: Sequence[Panel], *, differences: bool = False) -> str:
    """Bars with intervals, one per mark and a scale per panel; with ``differences``, a forest plot around 0.

    Returns:
        SVG; empty without a number.
    """
    panels = [(name, [mark for mark in marks if mark.value is not None]) for name, marks in panels]
    panels = [(name, marks) for name, marks in panels if marks]
    if not panels:
        return ""
    labels = [one_line(mark.label, _LONGEST_LABEL) for _, marks in panels for mark in marks]
    left = 24 + _LETTER * max(map(len, labels))
    tops = [*accumulate((len(marks) + 2.6 for _, marks in panels), initial=0.0)]
    height = _TOP + round(_ROW * tops[-1])
    width = left + _PLOT + _VALUE
    parts = [
        _panel(name, marks, left, _TOP + _ROW * top, differences=differences)
        for (name, marks), top in zip(panels, tops[:-1], strict=True)
    ]
    return _page(title, width, height, parts)


def trend_figure(title: str, points: Sequence[TrendPoint]) -> str:
    """The trend of each task, one below the other.

    Args:
        title: of the figure.
        points: by task, oldest first.

    Returns:
        SVG; empty without a number.
    """
    charts = []
    for (task_id, metric), own in groupby(points, lambda point: (point.task_id, point.metric)):
        name = f"{task_id} {metric}"
        if chart := trend_chart(list(own), None, name):
            charts.append((name, chart.replace(' font-family="sans-serif"', "", 1)))
    if not charts:
        return ""
    width = max(int(chart.split('width="', 1)[1].split('"', 1)[0]) for _, chart in charts)
    tall = int(charts[0][1].split('height="', 1)[1].split('"', 1)[0]) + _ROW
    parts = [
        f'{_text(8, _TOP + tall * at + 12, name)}<g transform="translate(0 {_TOP + tall * at + _ROW})">{chart}</g>'
        for at, (name, chart) in enumerate(charts)
    ]
    return _page(title, width, _TOP + tall * len(charts), parts)


def _page(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    shown = escape(clean(title))
    return (
        f'<svg {_NAMESPACE} class="figure" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12"><title>{shown}</title>'
        f'<rect class="paper" width="{width}" height="{height}" fill="#ffffff"/>'
        f"{_text(8, 20, title, bold=True)}{''.join(parts)}</svg>"
    )


def _panel(name: str, marks: Sequence[Mark], left: int, top: float, *, differences: bool) -> str:
    low, high, step = _scale([end for mark in marks for end in mark.ends])

    def x(value: float) -> float:
        return left + _PLOT * (min(max(value, low), high) - low) / (high - low)

    bottom = top + _ROW * (len(marks) + 1)
    ticks = [low + step * at for at in range(round((high - low) / step) + 1)]
    write = signed_text if differences else format_value
    ends = f'y1="{top + _ROW - 6:.0f}" y2="{bottom:.0f}"'
    lines = "".join(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" {ends}/>' for tick in ticks)
    zero = f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" {ends} stroke="{_INK}"/>'
    axis = "".join(_text(x(tick), bottom + 14, f"{tick:.10g}".replace("-", "−"), anchor="middle") for tick in ticks)
    rows = []
    for at, mark in enumerate(marks):
        y = top + _ROW * (at + 1.25)
        rows.append(_text(left - 10, y + 4, one_line(mark.label, _LONGEST_LABEL), anchor="end"))
        if mark.value is None:
            continue
        exists = math.isfinite(mark.value)
        if exists and not differences:
            first, last = sorted((x(0), x(mark.value)))
            size = f'width="{last - first:.1f}" height="14"'
            rows.append(f'<rect class="bar" x="{first:.1f}" y="{y - 7:.1f}" {size} fill="{_BAR}"/>')
        if mark.low is not None and mark.high is not None:
            line = f"M{x(mark.low):.1f} {y:.1f}H{x(mark.high):.1f}"
            caps = "".join(f"M{x(end):.1f} {y - 4:.1f}v8" for end in (mark.low, mark.high))
            rows.append(f'<path class="whisker" d="{line}{caps}" stroke="{_WHISKER}" stroke-width="1.5" fill="none"/>')
        if exists:
            rows.append(f'<circle class="dot" cx="{x(mark.value):.1f}" cy="{y:.1f}" r="3.5" fill="{_DOT}"/>')
        shown = write(mark.value) if exists else "> all" if mark.value > 0 else "< all"
        rows.append(_text(left + _PLOT + 12, y + 4, shown))
    return (
        f'<g class="soft" fill="{_SOFT}">{_text(8, top + 10, name)}{axis}</g>'
        f'<g class="grid" stroke="{_GRID}">{lines}</g>'
        f"{zero}{''.join(rows)}"
    )


def _scale(ends: Sequence[float]) -> tuple[float, float, float]:
    """Both ends of the axis, and the step between its ticks: 1, 2 or 5 times a power of ten. 0 is on it."""
    low, high = min(0.0, *ends), max(0.0, *ends)
    if low == 0 and 0.2 < high <= 1:
        return 0.0, 1.0, 0.2
    span = high - low or 1.0
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(power * size for size in (1, 2, 5, 10) if span / (power * size) <= 6)
    return math.floor(low / step) * step, math.ceil(high / step) * step or step, step


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text class="ink" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(clean(text))}</text>'
