"""The length-controlled win rate, from ``Score.components``."""

import math

import numpy as np

from gage_eval.scoring.metrics.aggregations.base import (
    Aggregate,
    CountedRows,
    Floats,
    Ints,
    Recounted,
    aggregation,
)
from gage_eval.stats.bootstrap import bootstrap_counts
from gage_eval.stats.logits import length_controlled_win_rate


def _recount(rows: CountedRows) -> Recounted:
    samples, (wins, longer, difficulty) = _by_sample(rows)

    def numbers(times: Ints) -> dict[str, float | None]:
        return {"": length_controlled_win_rate(wins, longer, difficulty, times[samples])}

    return numbers


@aggregation("length_controlled", version=1, terms=True, recount=_recount)
def length_controlled(rows: CountedRows) -> Aggregate:
    """The win rate at equal length (`stats.length_controlled_win_rate`), with a seeded bootstrap that fits again.

    A metric leaves ``components={value key: [win, characters more than the other answer, difficulty]}``; those of a
    sample's replicates are averaged. AlpacaEval's own standard error leaves out the error of the fit.
    """
    samples, (wins, longer, difficulty) = _by_sample(rows)
    value = length_controlled_win_rate(wins, longer, difficulty)
    if value is None:
        return Aggregate(None, samples=len(samples))

    def drawn(times: Ints) -> float:
        rate = length_controlled_win_rate(wins, longer, difficulty, times)
        return math.nan if rate is None else rate

    return Aggregate.of(value, *bootstrap_counts(len(samples), drawn), "bootstrap", len(samples))


def _by_sample(rows: CountedRows) -> tuple[Ints, Floats]:
    """The samples that have terms, and the means of these over a sample's replicates, a row per term."""
    assert rows.terms is not None
    there = ~np.isnan(rows.terms).any(axis=1)
    samples, place, counts = np.unique(rows.row_index[there], return_inverse=True, return_counts=True)
    sums = [np.bincount(place, weights=column, minlength=len(samples)) for column in rows.terms[there].T]
    return samples, np.stack(sums) / counts if sums else np.empty((3, 0))
