"""What is wrong with a task: shares of failures, reasons, worst slices, and what changed against another run."""

from contextlib import suppress
from typing import Any

import numpy as np

from gage_eval.base.errors import GageError
from gage_eval.regression.baselines import Baselines
from gage_eval.report.details import Bin, KindOfAnswer, Reason, SliceScore, TaskDetails
from gage_eval.report.run_view import worst_slices
from gage_eval.report.summary import format_value
from gage_eval.runs.folder import record_of
from gage_eval.runs.results.outcomes import ANSWER_KINDS
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.report_details import distribution, length_bins
from gage_eval.runs.results.stored import completed_runs
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.viewer.index import BETWEEN, IndexedMeasure, IndexedSlice
from gage_eval.viewer.listing import Listing
from gage_eval.viewer.query import format_term

_MOST_REASONS = 6
_MOST_VALUES = 2_000
_SMALLEST_SLICE = 3
# How many earlier runs are looked at for one of the same name.
_LOOKED_AT = 200


def task_details(listing: Listing, measure: IndexedMeasure | None, scale: Scale) -> TaskDetails:
    """What a page shows of a task's answers, from its index."""
    values, lengths, unit = ((), (), "tokens") if measure is None else answer_bins(listing, measure, scale)
    return TaskDetails(
        measure=None if measure is None else measure.name,
        answers=listing.about.answers,
        kinds=tuple(KindOfAnswer(*entry) for entry in kind_counts(listing, measure).items()),
        distribution=values,
        lengths=lengths,
        length_unit=unit,
        reasons=reasons(listing, measure),
        worst=worst(listing, measure),
    )


def kind_counts(listing: Listing, measure: IndexedMeasure | None) -> dict[str, int]:
    """How many answers are of each kind, the failures first."""
    column = f"kind_{0 if measure is None else measure.number}"
    rows = listing.remembered(f"SELECT {column} AS kind, count(*) AS n FROM task.answers GROUP BY 1")  # noqa: S608
    counts = {row["kind"]: row["n"] for row in rows}
    order = [*ANSWER_KINDS[:-2], *sorted(counts.keys() - set(ANSWER_KINDS)), *ANSWER_KINDS[-2:]]
    return {kind: counts[kind] for kind in order if kind in counts}


def mean_of(listing: Listing, measure: IndexedMeasure) -> float | None:
    """The mean value of the answers that count."""
    number = measure.number
    rows = listing.remembered(
        f"SELECT avg(value_{number}) AS mean FROM task.answers WHERE status_{number} IN ('scored', 'unparsed')",  # noqa: S608
    )
    mean: float | None = rows[0]["mean"]
    return mean


def reasons(listing: Listing, measure: IndexedMeasure | None) -> tuple[Reason, ...]:
    """The most frequent reasons of errors and of unread answers. Requests without an answer say their own."""
    columns = [("request", "error", "error_kind")]
    if measure is not None:
        columns.append((measure.name, "reason", f"reason_{measure.number}"))
    known = [
        Reason(where, row["why"].replace("_", " "), row["n"], format_term(term, row["why"]))
        for where, term, column in columns
        for row in listing.remembered(
            f"SELECT {column} AS why, count(*) AS n FROM task.answers WHERE {column} <> 'unanswered' "  # noqa: S608
            f"GROUP BY 1 ORDER BY n DESC LIMIT {_MOST_REASONS}",
        )
    ]
    return tuple(sorted(known, key=lambda reason: -reason.count)[:_MOST_REASONS])


def worst(listing: Listing, measure: IndexedMeasure | None) -> tuple[SliceScore, ...]:
    """The slices that take most from the mean of a measure."""
    if measure is None or measure.higher_is_better is None:
        return ()
    slices = (
        SliceScore(
            f"{field.name} = {row['item']}",
            format_value(row["mean"]),
            row["mean"],
            row["n"],
            format_term(field.name, row["item"]),
        )
        for field in listing.about.slices
        for row in slice_values(listing, measure, field)
        if row["n"] >= _SMALLEST_SLICE
    )
    return worst_slices(slices, mean_of(listing, measure), higher_is_better=measure.higher_is_better)


def slice_values(listing: Listing, measure: IndexedMeasure, field: IndexedSlice) -> list[dict[str, Any]]:
    """The values of a slice field (``item``, ``n``, ``mean``). None for a field that is another one for each sample."""
    column, number = f"slice_{field.number}", measure.number
    rows = listing.remembered(
        f"SELECT item, count(*) AS n, avg(value) AS mean FROM (SELECT value_{number} AS value, "  # noqa: S608
        f"unnest(string_split({column}, '{BETWEEN}')) AS item FROM task.answers WHERE {column} IS NOT NULL "
        f"AND status_{number} IN ('scored', 'unparsed')) GROUP BY item ORDER BY n DESC LIMIT {_MOST_VALUES}",
    )
    return [row for row in rows if row["mean"] is not None] if len(rows) < _MOST_VALUES else []


def answer_bins(
    listing: Listing, measure: IndexedMeasure, scale: Scale
) -> tuple[tuple[Bin, ...], tuple[Bin, ...], str]:
    """The answers by their value, and by their length with the mean value of each bin; last, the unit of the length."""

    def made() -> tuple[tuple[Bin, ...], tuple[Bin, ...], str]:
        number = measure.number
        table = listing.database.table(
            f"SELECT value_{number}::DOUBLE AS value, completion_tokens::DOUBLE AS tokens, length::DOUBLE AS length "  # noqa: S608
            f"FROM task.answers WHERE status_{number} IN ('scored', 'unparsed')"
        )
        values, tokens, lengths = (table[name].to_numpy() for name in ("value", "tokens", "length"))
        has_tokens = not np.isnan(tokens).all()
        return (
            distribution(values, scale),
            length_bins(tokens if has_tokens else lengths, values),
            "tokens" if has_tokens else "characters",
        )

    return listing.remember(("bins", measure.number), made)


def flips(listing: Listing) -> tuple[int, int]:
    """How many answers are worse and better than those of the run that an index is paired with."""
    row = listing.remembered(
        "SELECT count(*) FILTER (change < 0) AS worse, count(*) FILTER (change > 0) AS better FROM paired.pairs",
    )[0]
    return row["worse"], row["better"]


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
    for stored in completed_runs(locations, record.name, _LOOKED_AT):
        other = stored.record
        is_like = (other.tested, other.subset) == (record.tested, record.subset)
        if is_like and stored.run_id != run.run_id and other.created < record.created:
            return stored.run_id
    return None


def _is_like(run: RunReader, run_id: str) -> bool:
    """Whether another run is there and completed, with the same declared model."""
    other = record_of(run.stored.folder.locations, run_id)
    return other is not None and other.status == "completed" and other.tested == run.stored.record.tested
