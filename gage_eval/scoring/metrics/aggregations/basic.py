"""Aggregations over samples, replicates reduced to their mean."""

from functools import partial

import numpy as np

from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics.aggregations.base import (
    Aggregate,
    CountedRows,
    Recounted,
    aggregation,
    mean_of,
    mean_value,
    weighted_mean_of,
)
from gage_eval.stats import mean_stderr, quantile, quantile_interval, repeated_quantile

_MOST_CATEGORIES = 1000


@aggregation("mean", version=4, clusters=True, per_sample=mean_value)
def mean(rows: CountedRows) -> Aggregate:
    """The mean; Wilson's interval for values that the metric declares 0 or 1, else Student's within its ``bounds``."""
    return mean_of(rows.samples)


@aggregation("weighted_mean", version=3, clusters=True, weights=True, per_sample=mean_value)
def weighted_mean(rows: CountedRows) -> Aggregate:
    """Σwx/Σw with the metric's ``weight_field``; without one the mean."""
    return weighted_mean_of(rows.samples)


def _recounted_quantile(rows: CountedRows, *, q: int) -> Recounted:
    samples, values = np.unique(rows.row_index), rows.samples.values
    order = np.argsort(values)
    ordered, samples = values[order], samples[order]
    return lambda times: {"": repeated_quantile(ordered, times[samples].cumsum(), q / 100)}


@aggregation("identity", version=1, resamples=False)
def identity(rows: CountedRows) -> Aggregate:
    """The value itself for one sample. For more samples there is no number: the values are in the scores."""
    values = rows.samples.values
    return Aggregate(float(values[0]) if len(values) == 1 else None)


@aggregation("median", version=1, recount=partial(_recounted_quantile, q=50))
def median(rows: CountedRows) -> Aggregate:
    """The median; for an even number of values the mean of the middle two. The interval is between order statistics."""
    return _quantile(rows, 0.5)


@aggregation("p{q}", version=1, largest=99, recount=_recounted_quantile)
def percentile(rows: CountedRows, *, q: int) -> Aggregate:
    """The q-th percentile (``p1`` to ``p99``), linear between order statistics, which also bound its interval."""
    return _quantile(rows, q / 100)


@aggregation("min", version=1, resamples=False)
def minimum(rows: CountedRows) -> Aggregate:
    """The smallest value of a sample."""
    values = rows.samples.values
    return Aggregate(float(values.min()) if len(values) else None)


@aggregation("max", version=1, resamples=False)
def maximum(rows: CountedRows) -> Aggregate:
    """The largest value of a sample."""
    values = rows.samples.values
    return Aggregate(float(values.max()) if len(values) else None)


@aggregation("std", version=1, keeps_scale=False)
def std(rows: CountedRows) -> Aggregate:
    """The standard deviation over samples (n − 1); None for fewer than two."""
    values = rows.samples.values
    _, stderr = mean_stderr(values)
    return Aggregate(None if stderr is None else stderr * float(np.sqrt(len(values))))


@aggregation("counts", version=1, keeps_scale=False)
def counts(rows: CountedRows) -> dict[str, Aggregate]:
    """Number of rows with each value, one number per value (``score=1``); every replicate counts."""
    values, occurrences = np.unique(rows.values, return_counts=True)
    _refuse_too_many(len(values))
    return {f"={value:g}": Aggregate(float(n)) for value, n in zip(values, occurrences, strict=True)}


@aggregation("extracted_counts", version=1, categories=True, keeps_scale=False)
def extracted_counts(rows: CountedRows) -> dict[str, Aggregate]:
    """Number of answers with each extracted text (``score=B``); answers without one are under ``=``."""
    assert rows.categories is not None
    occurrences: dict[str, int] = {}
    for text in rows.categories:
        occurrences[text or ""] = occurrences.get(text or "", 0) + 1
    _refuse_too_many(len(occurrences))
    return {f"={text}": Aggregate(float(occurrences[text])) for text in sorted(occurrences)}


def _quantile(rows: CountedRows, p: float) -> Aggregate:
    values = rows.samples.values
    return Aggregate.of(quantile(values, p), None, quantile_interval(values, p), "order")


def _refuse_too_many(count: int) -> None:
    if count > _MOST_CATEGORIES:
        raise InputError(
            f"counts: {count:,} different values, more than {_MOST_CATEGORIES:,}. Aggregate with mean or a percentile."
        )
