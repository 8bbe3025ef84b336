"""Leaderboards of pairwise tasks: win rates and Bradley–Terry ratings against the answers that samples bring along."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, TypeAlias

from gage_eval.regression.ranks import significant_pairs
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.regression.style import style_differences
from gage_eval.report.console import score_text
from gage_eval.report.figures import Mark
from gage_eval.report.summary import MetricSummary, format_value, metric_summary, signed_text
from gage_eval.runs.results.outcomes import Measure
from gage_eval.stats import Interval, bradley_terry, rating_intervals
from gage_eval.stats.pairwise import Game

RATINGS_NOTE = (
    "Ratings are Bradley–Terry's, 400·log10 of the odds to win; the answers that they are compared with have 0. "
    "Those at equal style leave out what length, headers, lists and bold text add. "
    "Intervals are of 95 %, over prompts."
)
_POINTS = 400 / math.log(10)
# No model has an empty name.
_BASELINE = ""
_HEADER = (
    *("model", "win rate", "at equal length", "rating", "at equal style", "better than"),
    *("same in both orders", "position bias"),
)

# A game, and how the style of its answers differs where that is known.
_Game: TypeAlias = tuple[Game, Sequence[float] | None]


@dataclass(frozen=True)
class Rating:
    """A model on a leaderboard.

    Attributes:
        win: the win rate with its interval over prompts, both orders averaged.
        rating: in points; infinite where the model won, or lost, all games.
        interval: its 95 % interval, of which an end may be infinite; None where it is unknown.
        at_equal_style: both for answers that look the same; None where nothing tells style from model.
        at_equal_length: the length-controlled win rate; None without the metric.
        better_than: how many of the other models are significantly worse.
        consistent: the share of pairs with one outcome in both orders.
        position_bias: the share of wins of the answer shown first, minus ½.
    """

    row: str
    task_id: str
    model: str
    win: MetricSummary
    rating: float
    interval: Interval | None
    at_equal_style: tuple[float, Interval | None] | None
    at_equal_length: MetricSummary | None
    better_than: int
    consistent: float | None
    position_bias: float | None

    @property
    def mark(self) -> Mark:
        """In a figure."""
        return Mark(self.model, self.rating, *(self.interval or ()))

    def cells(self, others: int) -> tuple[str, ...]:
        """As a row below the header of `ratings_tables`."""
        return (
            self.model,
            score_text(self.win),
            "–" if self.at_equal_length is None else score_text(self.at_equal_length),
            _rating_text(self.rating, self.interval),
            "–" if self.at_equal_style is None else _rating_text(*self.at_equal_style),
            f"{self.better_than} of {others}",
            format_value(self.consistent),
            signed_text(self.position_bias),
        )

    def as_record(self) -> dict[str, Any]:
        """For JSON; what is infinite is null, and `exists` says so."""
        return {
            "row": self.row,
            "task_id": self.task_id,
            "model": self.model,
            **_win_rate("win_rate", self.win),
            **_with_ends("rating", self.rating, self.interval),
            "exists": math.isfinite(self.rating),
            **_with_ends("rating_at_equal_style", *(self.at_equal_style or (None, None))),
            **_win_rate("win_rate_at_equal_length", self.at_equal_length),
            "better_than": self.better_than,
            "consistent": self.consistent,
            "position_bias": self.position_bias,
            "n": self.win.n,
        }


def leaderboard(row: str, tasks: Mapping[str, ScoredTask], problems: list[str] | None = None) -> list[Rating]:
    """The ratings of the models of one task, the best first; empty where no model has the metric `pairwise_win`.

    Args:
        row: the row of the matrix.
        tasks: the task by model.
        problems: takes the reasons why runs are not comparable.

    Raises:
        NotComparable: two runs are not comparable, and nothing takes the reason.
    """
    wins = {model: win for model, task in tasks.items() if (win := _number(task, "pairwise_win", "win")) is not None}
    if not wins:
        return []
    rated = {model: tasks[model] for model in wins}
    games: dict[str, list[_Game]] = {}
    for model, (measure, _) in wins.items():
        styles = style_differences(rated[model])
        for sample_id, outcome in _outcomes(rated[model], measure):
            games.setdefault(sample_id, []).append(((model, _BASELINE, outcome), styles.get(sample_id)))
    rates, intervals = _rates(games.values(), with_style=False)
    styled_rates, styled_intervals = _rates(games.values(), with_style=True)
    better = significant_pairs(rated, problems, next(iter(wins.values()))[0].name)
    board = [
        Rating(
            row,
            tasks[model].reader.task_id,
            model,
            win,
            rates[model],
            intervals.get(model),
            (styled_rates[model], styled_intervals.get(model)) if model in styled_rates else None,
            None if (length := _number(tasks[model], "length_controlled_win", "win")) is None else length[1],
            sum(first == model for first, _ in better),
            _value(tasks[model], "consistent"),
            None if (shown_first := _value(tasks[model], "first_place")) is None else shown_first - 0.5,
        )
        for model, (_, win) in wins.items()
        if model in rates
    ]
    return sorted(board, key=lambda rating: -rating.rating)


def _rates(prompts: Iterable[Sequence[_Game]], *, with_style: bool) -> tuple[dict[str, float], dict[str, Interval]]:
    """The ratings of the models and their intervals, in points; with style, of the games whose style is known."""
    kept = [[game for game in prompt if not with_style or game[1] is not None] for prompt in prompts]
    kept = [prompt for prompt in kept if prompt]
    if not kept:
        return {}, {}
    games = [[game for game, _ in prompt] for prompt in kept]
    styles = [[style or () for _, style in prompt] for prompt in kept] if with_style else None
    every = None if styles is None else list(chain.from_iterable(styles))
    rates = bradley_terry(chain.from_iterable(games), _BASELINE, styles=every).ratings
    intervals = rating_intervals(games, _BASELINE, styles=styles) if rates else {}
    return (
        {model: rate * _POINTS for model, rate in rates.items()},
        {model: Interval(*(end * _POINTS for end in interval)) for model, interval in intervals.items()},
    )


def ratings_tables(ratings: Sequence[Rating]) -> Iterable[tuple[str, list[str], list[list[str]]]]:
    """The title, header and rows of each task's table; columns in which nothing is known are left out."""
    for (row, task_id), rated in groupby(ratings, lambda rating: (rating.row, rating.task_id)):
        own = list(rated)
        columns = zip(_HEADER, *(rating.cells(len(own) - 1) for rating in own), strict=True)
        header, *rows = zip(*(column for column in columns if {*column[1:]} != {"–"}), strict=True)
        yield f"{row} {task_id}", list(header), list(map(list, rows))


def _number(task: ScoredTask, metric: str, value_key: str) -> tuple[Measure, MetricSummary] | None:
    """A number of a built-in metric; None where the task does not have the metric."""
    for row in task.reader.metrics:
        if row["implementation"] == metric and row["value_key"] == value_key and row["slice_field"] is None:
            key = (row["metric_id"], row["filter"], value_key)
            measure = next(x for x in task.reader.measures if (x.metric_id, x.filter, x.value_key) == key)
            return replace(measure, aggregation=row["aggregation"]), metric_summary(row)
    return None


def _value(task: ScoredTask, value_key: str) -> float | None:
    number = _number(task, "pairwise_win", value_key)
    return None if number is None else number[1].value


def _outcomes(task: ScoredTask, measure: Measure) -> list[tuple[str, float]]:
    """The outcome of each sample that has one, the mean of both orders."""
    scores = task.scores(measure)
    pairs = zip(scores.ids.to_pylist(), scores.values.tolist(), strict=True)
    return [(sample_id, value) for sample_id, value in pairs if math.isfinite(value)]


def _rating_text(rating: float, interval: Interval | None) -> str:
    """``+85 [+40, +131]``, or ``> all`` where a rating does not exist."""
    if math.isinf(rating):
        return "> all" if rating > 0 else "< all"
    return _points_text(rating) + ("" if interval is None else f" [{', '.join(map(_points_text, interval))}]")


def _win_rate(name: str, rate: MetricSummary | None) -> dict[str, float | None]:
    ends = None if rate is None else (rate.ci_low, rate.ci_high)
    return _with_ends(name, None if rate is None else rate.value, ends)


def _with_ends(name: str, value: float | None, ends: Sequence[float | None] | None) -> dict[str, float | None]:
    """A number and the ends of its interval for JSON; null for what is infinite or not known."""
    numbers = zip((name, f"{name}_low", f"{name}_high"), (value, *(ends or (None, None))), strict=True)
    return {key: number if number is not None and math.isfinite(number) else None for key, number in numbers}


def _points_text(points: float) -> str:
    if math.isinf(points):
        return "∞" if points > 0 else "−∞"
    return f"{round(points):+d}".replace("-", "−")
