"""The report's charts as inline SVG.

Own code, for reasons: chart libraries write complete pictures (matplotlib 20 KiB each with fixed colours, pygal 10 KiB
with its stylesheet, others need scripts), and a report has hundreds of small ones in cells of tables. These
charts take their colours from the page's classes, so that they follow the colour scheme, and use attributes only: the
page's policy forbids inline styles.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape

from gage_eval.report.details import Bin
from gage_eval.report.summary import GroupScore, MetricSummary, format_value
from gage_eval.report.trend_chart import axis

_WIDTH, _HEIGHT = 160, 14


class Svg(str):
    """Text that is markup already (the protocol of jinja2)."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def interval(score: MetricSummary | GroupScore, bounds: tuple[float, float] | None = None) -> Svg:
    """The interval on the metric's scale, the score as a dot; nothing where the scale has no ends.

    A metric that declares no bounds is drawn on 0..1 while its score is in there, unless ``bounds`` are given.
    """
    value = score.value
    first, last = bounds or ends_of_scale(score)
    if value is None or not first <= value <= last:
        return Svg()
    low, high = score.ends or (value, value)
    low, high = max(low, first), min(high, last)
    left, right, middle = (_WIDTH * (x - first) / (last - first) for x in (low, high, value))
    y = _HEIGHT // 2
    label = escape(f"{format_value(value)} within {format_value(low)} to {format_value(high)}")
    return Svg(
        f'<svg class="interval" width="{_WIDTH}" height="{_HEIGHT}" viewBox="-4 0 {_WIDTH + 8} {_HEIGHT}" role="img" '
        f'aria-label="{label}"><line class="track" x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>'
        f'<rect class="bar" x="{left:.1f}" y="{y - 3}" width="{max(right - left, 1):.1f}" height="6" rx="3"/>'
        f'<circle class="dot" cx="{middle:.1f}" cy="{y}" r="2.5"/></svg>'
    )


def strip(shares: Sequence[tuple[str, str, float]], *, width: int = 300, height: int = 12) -> Svg:
    """Shares of a whole as one bar: each is a label, a class that colours it, and an amount."""
    total = math.fsum(amount for _, _, amount in shares)
    if total <= 0:
        return Svg()
    label = escape(" · ".join(f"{name} {amount:,.4g}" for name, _, amount in shares if amount))
    parts, left = [], 0.0
    for name, tone, amount in shares:
        part = width * amount / total
        if amount > 0:
            parts.append(
                f'<rect class="fill-{tone}" x="{left:.1f}" y="0" width="{max(part - 1, 0.8):.1f}" height="{height}">'
                f"<title>{escape(name)}</title></rect>"
            )
        left += part
    return Svg(
        f'<svg class="strip" viewBox="0 0 {width} {height}" preserveAspectRatio="none" height="{height}" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )


def bars(bins: Sequence[Bin], *, means: bool = False) -> Svg:
    """A column per bin: how many answers it holds, or with ``means`` their mean score from 0 to 1 or the highest."""
    heights = [(bar.mean or 0.0) if means else float(bar.count) for bar in bins]
    top = max([1.0 if means else 0.0, *heights])
    if not bins or top <= 0 or any(not 0 <= height <= top for height in heights):
        return Svg()
    step, tall = 46, 96
    columns = []
    for at, (bar, height) in enumerate(zip(bins, heights, strict=True)):
        tip = f"{bar.label}: {bar.count:,} answers" + ("" if bar.mean is None else f", mean {format_value(bar.mean)}")
        shown = ("–" if bar.mean is None else f"{bar.mean:.2f}") if means else _short(bar.count)
        size = max(tall * height / top, 1.0) if bar.count else 0.0
        x = at * step
        columns.append(
            f'<g><title>{escape(tip)}</title><rect class="column" x="{x + 5}" y="{tall + 14 - size:.1f}" '
            f'width="{step - 10}" height="{size:.1f}" rx="2"/>'
            f'<text x="{x + step / 2:.0f}" y="{tall + 9 - size:.1f}">{escape(shown)}</text>'
            f'<text class="axis" x="{x + step / 2:.0f}" y="{tall + 28}">{escape(bar.label)}</text></g>'
        )
    width = step * len(bins)
    what = "mean score" if means else "answers"
    label = escape("; ".join(f"{bar.label}: {format_value(bar.mean) if means else f'{bar.count:,}'}" for bar in bins))
    return Svg(
        f'<svg class="columns" viewBox="0 0 {width} {tall + 34}" width="{width}" role="img" '
        f'aria-label="{what} by bin: {label}">'
        f'<line class="track" x1="0" x2="{width}" y1="{tall + 14.5}" y2="{tall + 14.5}"/>{"".join(columns)}</svg>'
    )


@dataclass(frozen=True)
class Point:
    """A point of a scatter plot, with the interval of its height."""

    name: str
    x: float
    y: float
    low: float
    high: float


def scatter(points: Sequence[Point], *, across: str, up: str) -> Svg:
    """Points with their names; both axes are labelled at their ends and in the middle.

    Args:
        points: at least one.
        across, up: what the axes are.
    """
    width, height, left, low_edge, top = 460, 260, 52, 40, 14
    xs, ys = axis([point.x for point in points]), axis([end for p in points for end in (p.low, p.high, p.y)])
    right = width - 14

    def at(x: float, y: float) -> tuple[float, float]:
        across_share, up_share = (x - xs[0]) / (xs[-1] - xs[0]), (y - ys[0]) / (ys[-1] - ys[0])
        return left + (right - left) * across_share, height - low_edge - (height - low_edge - top) * up_share

    parts = [
        f'<text class="axis {anchor}" x="{at(x, ys[0])[0]:.0f}" y="{height - 22}">{x:,.4g}</text>'
        for x, anchor in zip(xs, ("start", "middle", "end"), strict=True)
    ]
    for y in ys:
        line = f"{at(xs[0], y)[1]:.1f}"
        parts.append(f'<line class="track" x1="{left}" x2="{right}" y1="{line}" y2="{line}"/>')
        parts.append(f'<text class="axis end" x="{left - 6}" y="{float(line) + 4:.1f}">{y:,.3g}</text>')
    beneath = -math.inf
    for point in sorted(points, key=lambda point: -point.y):
        x, y = at(point.x, point.y)
        # Names do not cover each other.
        beneath = max(y + 4, beneath + 13)
        (_, bottom), (_, upper) = at(point.x, point.low), at(point.x, point.high)
        ahead = x < (left + right) / 2
        tip = escape(f"{point.name}: {up} {format_value(point.y)}, {across} {point.x:,.4g}")
        parts.append(
            f"<g><title>{tip}</title>"
            f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{upper:.1f}"/>'
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/><text class="{"start" if ahead else "end"}" '
            f'x="{x + (8 if ahead else -8):.1f}" y="{beneath:.1f}">{escape(point.name)}</text></g>'
        )
    said = "; ".join(f"{point.name}: {format_value(point.y)} at {point.x:,.4g}" for point in points)
    label = escape(f"{up} against {across}: {said}")
    return Svg(
        f'<svg class="scatter" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{label}">{"".join(parts)}'
        f'<text class="axis middle" x="{(left + right) / 2:.0f}" y="{height - 6}">{escape(across)}</text></svg>'
    )


def _short(count: int) -> str:
    for size, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.3g}{name}"
    return str(count)


def ends_of_scale(score: MetricSummary | GroupScore) -> tuple[float, float]:
    """Between which values a score is drawn; infinite where its scale has no ends."""
    if isinstance(score, GroupScore) or (score.bound_low is None and score.bound_high is None):
        return 0.0, 1.0
    if score.bound_low is None or score.bound_high is None:
        return math.inf, math.inf
    return score.bound_low, score.bound_high
