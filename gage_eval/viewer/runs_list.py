"""The list of runs: by name, newest first, each name with the trend of its tasks."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import pairwise

from gage_eval.base.errors import GageError
from gage_eval.report.charts import Svg
from gage_eval.report.summary import format_value
from gage_eval.runs.options import Locations
from gage_eval.runs.results.listing import ListedRun, ListedScore, listed_run
from gage_eval.runs.results.stored import StoredRun, stored_runs

_MOST_POINTS = 60


@dataclass(frozen=True)
class Trend:
    """A headline over the runs of one name and one declared model.

    Attributes:
        name: of the task or group.
        model: the names of the models under test.
        last: the newest score.
    """

    name: str
    metric: str
    model: str
    last: str
    svg: Svg


@dataclass(frozen=True)
class Suite:
    """The runs of one name, newest first."""

    name: str
    runs: tuple[ListedRun, ...]
    trends: tuple[Trend, ...]

    @property
    def priced(self) -> bool:
        """Whether a run has a cost."""
        return any(run.cost is not None for run in self.runs)


class RunsList:
    """The runs of some locations. What a finished run shows is read once."""

    def __init__(self, locations: Locations) -> None:
        self._locations = locations
        self._finished: dict[str, tuple[datetime | None, ListedRun]] = {}
        self._lock = threading.Lock()

    def runs(self) -> list[ListedRun]:
        """All runs, newest first."""
        with self._lock:
            return sorted(
                (self._listed(stored) for stored in stored_runs(self._locations)),
                key=lambda run: (run.created is not None, run.created and run.created.timestamp()),
                reverse=True,
            )

    def suites(self, wanted: str = "") -> list[Suite]:
        """The runs by name; those whose name, id or model holds a text."""
        by_name: dict[str, list[ListedRun]] = {}
        for run in self.runs():
            if run.matches(wanted):
                by_name.setdefault(run.name or "(damaged)", []).append(run)
        return [Suite(name, tuple(runs), tuple(_trends(runs))) for name, runs in by_name.items()]

    def _listed(self, stored: StoredRun) -> ListedRun:
        try:
            record = stored.record
        except GageError:
            return listed_run(stored)
        known = self._finished.get(stored.run_id)
        if known is not None and known[0] == record.updated:
            return known[1]
        listed = listed_run(stored)
        if record.status != "running":
            self._finished[stored.run_id] = record.updated, listed
        return listed


def _trends(runs: Sequence[ListedRun]) -> list[Trend]:
    """The trend of each headline that two runs or more have of the same declared model."""
    points: dict[tuple[str, str, tuple[str, ...]], list[tuple[str, ListedScore]]] = {}
    for run in reversed(runs):
        for score in run.scores:
            if score.value is not None:
                points.setdefault((score.name, score.metric, score.model), []).append((run.run, score))
    return [
        Trend(name, metric, ", ".join(model), history[-1][1].text, sparkline(history[-_MOST_POINTS:]))
        for (name, metric, model), history in points.items()
        if len(history) > 1
    ]


def sparkline(points: Sequence[tuple[str, ListedScore]]) -> Svg:
    """Values over time as a line, their intervals as a band; the axis is from the lowest end to the highest.

    A vertical line is where the model is another one under the same name, such as a new checkpoint.
    """
    width, height, edge = 180, 36, 4
    values = [score.value or 0.0 for _, score in points]
    lows = [score.low if score.low is not None else value for (_, score), value in zip(points, values, strict=True)]
    highs = [score.high if score.high is not None else value for (_, score), value in zip(points, values, strict=True)]
    least, most = min(lows), max(highs)
    span = (most - least) or 1.0
    step = (width - 2 * edge) / max(len(points) - 1, 1)

    def at(place: int, value: float) -> str:
        return f"{edge + place * step:.1f},{height - edge - (height - 2 * edge) * (value - least) / span:.1f}"

    line = " ".join(at(place, value) for place, value in enumerate(values))
    upper = [at(place, value) for place, value in enumerate(highs)]
    band = " ".join([*upper, *reversed([at(place, value) for place, value in enumerate(lows)])])
    places = [at(place, value).split(",") for place, value in enumerate(values)]
    dots = "".join(
        f'<circle class="dot" cx="{x}" cy="{y}" r="2.5"><title>{escape(run)}: {escape(score.text)}</title></circle>'
        for (x, y), (run, score) in zip(places, points, strict=True)
    )
    marks = "".join(
        f'<line class="new-model" x1="{places[place][0]}" x2="{places[place][0]}" y1="0" y2="{height}"/>'
        for place, ((_, before), (_, score)) in enumerate(pairwise(points), start=1)
        if before.identity != score.identity
    )
    label = escape(f"{len(points)} runs, from {format_value(values[0])} to {format_value(values[-1])}")
    return Svg(
        f'<svg class="trend" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{label}"><polygon class="band" points="{band}"/>{marks}'
        f'<polyline class="trend-line" points="{line}"/>{dots}</svg>'
    )
