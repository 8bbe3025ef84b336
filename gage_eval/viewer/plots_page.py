"""Plots of the runs of a matrix: scores with intervals, groups, slices, ratings, and score against length or cost."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.datastructures import QueryParams

from gage_eval.report.charts import Point, Svg, bars, ends_of_scale, interval, scatter
from gage_eval.report.messages import trimmed
from gage_eval.report.summary import GroupScore, MetricSummary, Summary
from gage_eval.viewer.list_page import ListPage
from gage_eval.viewer.matrix_page import MatrixColumn, matrix_state, open_columns
from gage_eval.viewer.open_runs import OpenRuns
from gage_eval.viewer.overview import answer_bins, slice_values
from gage_eval.viewer.pages import rendered

# Values of a slice field: the largest are shown.
_MOST_VALUES = 12
_LONGEST_NAME = 34


@dataclass(frozen=True)
class PlottedRow:
    """A score of each run, drawn on one scale.

    Attributes:
        name: what is measured.
        n: samples of the first run that has it.
        cells: by run; None where a run does not have it.
    """

    name: str
    n: int
    cells: Sequence[tuple[MetricSummary | GroupScore, Svg] | None]


def plots_page(open_runs: OpenRuns, lists: ListPage, params: QueryParams) -> str:
    """The page. Raises as `gage_eval.viewer.matrix_page.matrix_page`."""
    columns, state = open_columns(open_runs, lists, matrix_state(params))
    shown = [column for column in columns if column.task is not None]
    summaries = [column.run.stored.known_summary for column in shown]
    scores = [column.score for column in shown]
    return rendered(
        "plots.html",
        title="Side by side: plots",
        state=state,
        shown=shown,
        scores=[_row(state.metric, scores, _bounds(scores)), *_groups(summaries)],
        slices=list(_slices(shown)),
        ratings=[(column, svg) for column in shown if (svg := _ratings(column))],
        scatters=list(_scatters(shown, summaries)),
    )


def _row(
    name: str, scores: Sequence[MetricSummary | GroupScore | None], bounds: tuple[float, float] | None = None
) -> PlottedRow:
    known = [end for score in scores if score for end in (score.value, *(score.ends or ())) if end is not None]
    if bounds is None or not all(map(math.isfinite, bounds)) or not all(bounds[0] <= x <= bounds[1] for x in known):
        bounds = min(0.0, *known, 0.0), max(1.0, *known, 1.0)
    cells = [None if score is None else (score, interval(score, bounds)) for score in scores]
    return PlottedRow(name, next((score.n for score in scores if isinstance(score, MetricSummary)), 0), cells)


def _bounds(scores: Sequence[MetricSummary | None]) -> tuple[float, float] | None:
    """The ends of the metric's scale, as the first run that has it knows them."""
    return next((ends_of_scale(score) for score in scores if score is not None), None)


def _groups(summaries: Sequence[Summary | None]) -> Iterator[PlottedRow]:
    """The numbers of the runs' groups: every sample, and every member, counts the same."""
    by_name: dict[str, list[GroupScore | None]] = {}
    sizes: dict[str, int] = {}
    for number, summary in enumerate(summaries):
        for group in summary.groups if summary is not None else ():
            for metric in group.metrics:
                for kind, score in (("micro", metric.micro), ("macro", metric.macro)):
                    name = f"{group.group_id} · {metric.marked_name}, {kind}"
                    by_name.setdefault(name, [None] * len(summaries))[number] = score
                    sizes.setdefault(name, metric.n)
    for name, scores in by_name.items():
        yield replace(_row(name, scores), n=sizes[name])


def _slices(columns: Sequence[MatrixColumn]) -> Iterator[tuple[str, list[PlottedRow]]]:
    """The mean score of each value of the slice fields, those with the most answers first."""
    means: dict[str, dict[str, dict[int, float]]] = {}
    sizes: dict[tuple[str, str], int] = {}
    for number, column in enumerate(columns):
        task = column.task
        if task is None or task.measure is None:
            continue
        for field in task.listing.about.slices:
            for entry in slice_values(task.listing, task.measure, field):
                means.setdefault(field.name, {}).setdefault(entry["item"], {})[number] = entry["mean"]
                sizes.setdefault((field.name, entry["item"]), entry["n"])
    bounds = _bounds([column.score for column in columns])
    for name, values in means.items():
        largest = sorted(values, key=lambda value: -sizes[name, value])[:_MOST_VALUES]
        scores = {value: [_mean(values[value], number) for number in range(len(columns))] for value in largest}
        yield name, [replace(_row(value, scores[value], bounds), n=sizes[name, value]) for value in largest]


def _mean(means: Mapping[int, float], number: int) -> GroupScore | None:
    return GroupScore(value=means[number]) if number in means else None


def _ratings(column: MatrixColumn) -> Svg:
    """The run's answers by their value; nothing where the values are 0 and 1 only."""
    task = column.task
    if task is None or task.measure is None:
        return Svg()
    return bars(answer_bins(task.listing, task.measure, task.task.measure(task.measure.name).scale)[0])


def _scatters(columns: Sequence[MatrixColumn], summaries: Sequence[Summary | None]) -> Iterator[Svg]:
    """The score against what is known of all runs: tokens or characters of an answer, seconds, cost."""
    known: list[tuple[MatrixColumn, MetricSummary, dict[str, float | None]]] = []
    for column, summary in zip(columns, summaries, strict=True):
        if column.task is None or column.score is None or column.score.value is None:
            continue
        (means,) = column.task.listing.remembered(
            "SELECT avg(completion_tokens) AS tokens, avg(length) AS characters, avg(latency_ms) / 1000 AS seconds "
            "FROM task.answers",
        )
        cost = None if summary is None else summary.run.usage.cost
        amounts = {"tokens of an answer": means["tokens"], "characters of an answer": means["characters"],
                   "seconds of an answer": means["seconds"], "cost of the run": cost}  # fmt: skip
        known.append((column, column.score, amounts))
    for name in known[0][2] if known else ():
        points = [
            Point(
                trimmed(column.title, _LONGEST_NAME),
                x,
                score.value or 0.0,
                *(score.ends or (score.value or 0.0,) * 2),
            )
            for column, score, amounts in known
            if (x := amounts[name]) is not None
        ]
        if len(points) > 1:
            yield scatter(points, across=name, up=known[0][1].name)
