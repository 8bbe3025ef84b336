"""What is wrong with a task: shares of failures, reasons, worst slices, and what changed against another run."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from gage_eval.base.errors import GageError, InputError
from gage_eval.regression.baselines import Baselines
from gage_eval.report.details import Bin
from gage_eval.runs.results.outcomes import ANSWER_KINDS
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.report_details import distribution, length_bins
from gage_eval.runs.results.stored import StoredRun, stored_runs
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.viewer.index import BETWEEN, IndexedMeasure, IndexedSlice
from gage_eval.viewer.listing import Listing

_WORST = 8
_MOST_REASONS = 6
_MOST_VALUES = 2_000
_SMALLEST_SLICE = 3
# A distribution of so many values says no more than the score.
_RIGHT_OR_WRONG = 2
# How many earlier runs are looked at for one of the same name.
_LOOKED_AT = 200


@dataclass(frozen=True)
class SliceScore:
    """A slice by one measure. ``deficit``: points below the task's mean, times n."""

    slice: IndexedSlice
    value: str
    n: int
    mean: float
    deficit: float


@dataclass(frozen=True)
class Reason:
    """Why answers failed: the term that lists them, the reason in words, and how many."""

    term: str
    text: str
    count: int


@dataclass(frozen=True)
class Flips:
    """How many answers are worse and better than another run's."""

    worse: int
    better: int
    paired: int


def kind_counts(listing: Listing, measure: IndexedMeasure | None) -> dict[str, int]:
    """How many answers are of each kind, the failures first."""
    column = f"kind_{0 if measure is None else measure.number}"
    rows = listing.remembered("kinds", f"SELECT {column} AS kind, count(*) AS n FROM task.answers GROUP BY 1")  # noqa: S608
    counts = {row["kind"]: row["n"] for row in rows}
    order = [*ANSWER_KINDS[:-2], *sorted(counts.keys() - set(ANSWER_KINDS)), *ANSWER_KINDS[-2:]]
    return {kind: counts[kind] for kind in order if kind in counts}


def mean_of(listing: Listing, measure: IndexedMeasure) -> float | None:
    """The mean value of the answers that count."""
    number = measure.number
    rows = listing.remembered(
        "mean",
        f"SELECT avg(value_{number}) AS mean FROM task.answers WHERE status_{number} IN ('scored', 'unparsed')",  # noqa: S608
    )
    mean: float | None = rows[0]["mean"]
    return mean


def reasons(listing: Listing, measure: IndexedMeasure | None) -> list[Reason]:
    """The most frequent reasons of errors and of unread answers. Requests without an answer say their own."""
    all_reasons = []
    rows = listing.remembered("errors", "SELECT error_kind AS why, count(*) AS n FROM task.answers "
                              "WHERE error_kind IS NOT NULL GROUP BY 1 ORDER BY n DESC LIMIT 6")  # fmt: skip
    all_reasons += [Reason(f'error:"{row["why"]}"', f"request: {row['why']}", row["n"]) for row in rows]
    if measure is not None:
        column = f"reason_{measure.number}"
        rows = listing.remembered(
            "reasons",
            f"SELECT {column} AS why, count(*) AS n FROM task.answers WHERE {column} <> 'unanswered' "  # noqa: S608
            "GROUP BY 1 ORDER BY n DESC LIMIT 6",
        )
        all_reasons += [Reason(f"reason:{row['why']}", row["why"].replace("_", " "), row["n"]) for row in rows]
    return sorted(all_reasons, key=lambda reason: -reason.count)[:_MOST_REASONS]


def worst_slices(listing: Listing, measure: IndexedMeasure | None) -> list[SliceScore]:
    """The slices that take most from the mean of a measure: points below it, times n."""
    if measure is None or measure.higher_is_better is None:
        return []
    mean = mean_of(listing, measure)
    if mean is None:
        return []
    sign = -1.0 if measure.higher_is_better is False else 1.0
    scores = [
        SliceScore(field, row.value, row.n, row.mean, sign * (mean - row.mean) * row.n)
        for field in listing.about.slices
        for row in slice_values(listing, measure, field)
        if row.n >= _SMALLEST_SLICE
    ]
    worst = sorted(scores, key=lambda score: -score.deficit)
    return [score for score in worst if score.deficit > 0][:_WORST]


def slice_values(listing: Listing, measure: IndexedMeasure, field: IndexedSlice) -> Iterator[SliceScore]:
    """The values of a slice field, each with its mean. None for a field that is another one for each sample."""
    column, number = f"slice_{field.number}", measure.number
    rows = listing.remembered(
        "slices",
        f"SELECT item, count(*) AS n, avg(value) AS mean FROM (SELECT value_{number} AS value, "  # noqa: S608
        f"unnest(string_split({column}, '{BETWEEN}')) AS item FROM task.answers WHERE {column} IS NOT NULL "
        f"AND status_{number} IN ('scored', 'unparsed')) GROUP BY item ORDER BY n DESC LIMIT {_MOST_VALUES}",
    )
    for row in rows if len(rows) < _MOST_VALUES else ():
        if row["mean"] is not None:
            yield SliceScore(field, row["item"], row["n"], row["mean"], 0.0)


def answer_bins(
    listing: Listing, measure: IndexedMeasure, scale: Scale
) -> tuple[tuple[Bin, ...], tuple[Bin, ...], str]:
    """The answers by their value, and by their length with the mean value of each bin; last, the unit of the length.

    The first is empty where the values are 0 and 1 only.
    """

    def made() -> tuple[tuple[Bin, ...], tuple[Bin, ...], str]:
        number = measure.number
        table = listing.database.table(
            f"SELECT value_{number}::DOUBLE AS value, completion_tokens::DOUBLE AS tokens, length::DOUBLE AS length "  # noqa: S608
            f"FROM task.answers WHERE status_{number} IN ('scored', 'unparsed')"
        )
        values, tokens, lengths = (table[name].to_numpy() for name in ("value", "tokens", "length"))
        has_tokens = not np.isnan(tokens).all()
        bins = distribution(values, scale)
        return (
            bins if len(bins) > _RIGHT_OR_WRONG else (),
            length_bins(tokens if has_tokens else lengths, values),
            "tokens" if has_tokens else "characters",
        )

    return listing.remember(("bins", str(measure.number)), made)


def flips(listing: Listing) -> Flips:
    """Counts over the pairs of an index."""
    row = listing.remembered(
        "flips",
        "SELECT count(*) FILTER (change < 0) AS worse, count(*) FILTER (change > 0) AS better, "
        "count(change) AS paired FROM paired.pairs",
    )[0]
    return Flips(row["worse"], row["better"], row["paired"])


def usual_rival(run: RunReader) -> str | None:
    """The run that a run is compared with unless another one is named: the baseline's, else the run before.

    Only a run of the same name and the same declared model that has finished counts.
    """
    record, locations = run.stored.record, run.stored.folder.locations
    with suppress(GageError):
        baselines = Baselines(run.store)
        for suite, name in baselines.names():
            if suite == record.name:
                for entry in baselines.latest(suite, name).runs:
                    if entry.run_id != run.run_id and _is_like(run, entry.run_id):
                        return entry.run_id
    for number, stored in enumerate(stored_runs(locations)):
        if number >= _LOOKED_AT:
            break
        with suppress(InputError):
            other = stored.record
            same = (other.name, other.tested, other.subset, other.status) == (
                record.name,
                record.tested,
                record.subset,
                "completed",
            )
            if same and stored.run_id != run.run_id and other.created < record.created:
                return stored.run_id
    return None


def _is_like(run: RunReader, run_id: str) -> bool:
    """Whether another run is there and completed, with the same declared model."""
    try:
        other = StoredRun.open(run.stored.folder.locations, run_id).record
    except InputError:
        return False
    return other.status == "completed" and other.tested == run.stored.record.tested
