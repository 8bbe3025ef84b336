"""Leaderboards of pairwise tasks: win rates and Bradley–Terry ratings against the answers that samples bring along."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gage_eval.regression.ranks import significant_pairs
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.report.console import score_text
from gage_eval.report.figures import Mark
from gage_eval.report.summary import MetricSummary, format_value, metric_summary, signed_text
from gage_eval.runs.results.outcomes import Measure
from gage_eval.stats import Interval, bradley_terry, rating_intervals

RATINGS_HEADER = ("model", "win rate", "rating", "better than", "same in both orders", "position bias")
RATINGS_NOTE = (
    "Ratings are Bradley–Terry's, 400·log10 of the odds to win; the answers that they are compared with have 0. "
    "Intervals are of 95 %, over prompts."
)
_POINTS = 400 / math.log(10)
# No model has an empty name.
_BASELINE = ""


@dataclass(frozen=True)
class Rating:
    """A model on a leaderboard.

    Attributes:
        win: the win rate with its interval over prompts, both orders averaged.
        rating: in points; infinite where the model won, or lost, all games.
        interval: its 95 % interval, of which an end may be infinite.
        better_than: how many of the other models are significantly worse.
        consistent: the share of pairs with one outcome in both orders.
        position_bias: the share of wins of the answer shown first, minus ½.
    """

    row: str
    task_id: str
    model: str
    win: MetricSummary
    rating: float
    interval: Interval
    better_than: int
    consistent: float | None
    position_bias: float | None

    @property
    def text(self) -> str:
        """``+85 [+40, +131]``, or ``> all`` where a rating does not exist."""
        if math.isinf(self.rating):
            return "> all" if self.rating > 0 else "< all"
        low, high = map(_points_text, self.interval)
        return f"{_points_text(self.rating)} [{low}, {high}]"

    @property
    def mark(self) -> Mark:
        """In a figure."""
        ends = self.interval if all(map(math.isfinite, self.interval)) else (None, None)
        return Mark(self.model, self.rating if math.isfinite(self.rating) else None, *ends)

    def cells(self, others: int) -> tuple[str, ...]:
        """As a row below `RATINGS_HEADER`."""
        bias = "–" if self.position_bias is None else signed_text(self.position_bias)
        consistent = format_value(self.consistent)
        return self.model, score_text(self.win), self.text, f"{self.better_than} of {others}", consistent, bias

    def as_record(self) -> dict[str, Any]:
        """For JSON; what is infinite is null, and `exists` says so."""
        low, high = (end if math.isfinite(end) else None for end in self.interval)
        exists = math.isfinite(self.rating)
        return {
            "row": self.row,
            "task_id": self.task_id,
            "model": self.model,
            "win_rate": self.win.value,
            "win_rate_low": self.win.ci_low,
            "win_rate_high": self.win.ci_high,
            "rating": self.rating if exists else None,
            "rating_low": low,
            "rating_high": high,
            "exists": exists,
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
    wins = {model: win for model, task in tasks.items() if (win := _number(task, "win")) is not None}
    if not wins:
        return []
    rated = {model: tasks[model] for model in wins}
    games: dict[str, list[tuple[str, str, float]]] = {}
    for model, (measure, _) in wins.items():
        for sample_id, outcome in _outcomes(rated[model], measure):
            games.setdefault(sample_id, []).append((model, _BASELINE, outcome))
    prompts = list(games.values())
    ratings = bradley_terry((game for prompt in prompts for game in prompt), _BASELINE).ratings
    intervals = rating_intervals(prompts, _BASELINE) if prompts else {}
    better = significant_pairs(rated, problems, next(iter(wins.values()))[0].name)
    board = [
        Rating(
            row,
            tasks[model].reader.task_id,
            model,
            win,
            ratings[model] * _POINTS,
            Interval(*(end * _POINTS for end in intervals[model])),
            sum(first == model for first, _ in better),
            _value(tasks[model], "consistent"),
            None if (shown_first := _value(tasks[model], "first_place")) is None else shown_first - 0.5,
        )
        for model, (_, win) in wins.items()
        if model in ratings
    ]
    return sorted(board, key=lambda rating: -rating.rating)


def ratings_tables(ratings: Sequence[Rating]) -> Iterable[tuple[str, list[tuple[str, ...]]]]:
    """The title and rows of each task's table."""
    tables: dict[tuple[str, str], list[Rating]] = {}
    for rating in ratings:
        tables.setdefault((rating.row, rating.task_id), []).append(rating)
    for (row, task_id), own in tables.items():
        yield f"{row} {task_id}", [rating.cells(len(own) - 1) for rating in own]


def _number(task: ScoredTask, value_key: str) -> tuple[Measure, MetricSummary] | None:
    """A number of the metric `pairwise_win`; None where the task does not have the metric."""
    for row in task.reader.metrics:
        if row["implementation"] == "pairwise_win" and row["value_key"] == value_key and row["slice_field"] is None:
            key = (row["metric_id"], row["filter"], value_key)
            measure = next(x for x in task.reader.measures if (x.metric_id, x.filter, x.value_key) == key)
            return replace(measure, aggregation=row["aggregation"]), metric_summary(row)
    return None


def _value(task: ScoredTask, value_key: str) -> float | None:
    number = _number(task, value_key)
    return None if number is None else number[1].value


def _outcomes(task: ScoredTask, measure: Measure) -> list[tuple[str, float]]:
    """The outcome of each sample that has one, the mean of both orders."""
    scores = task.scores(measure)
    pairs = zip(scores.ids.to_pylist(), scores.values.tolist(), strict=True)
    return [(sample_id, value) for sample_id, value in pairs if math.isfinite(value)]


def _points_text(points: float) -> str:
    if math.isinf(points):
        return "∞" if points > 0 else "−∞"
    return f"{round(points):+d}".replace("-", "−")
