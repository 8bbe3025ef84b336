"""Aggregations of sums over the whole set of answers, from ``Score.components``."""

import math
from dataclasses import replace

from gage_eval.scoring.metrics.aggregations.base import (
    Aggregate,
    CountedRows,
    Floats,
    aggregation,
    corpus_number,
    recounted_sums,
    summed_terms,
)
from gage_eval.stats import ratio_stderr, t_interval


def _quotient(sums: Floats) -> float | None:
    top, bottom = sums.tolist()
    return top / bottom if bottom > 0 else None


def _perplexity(sums: Floats) -> float | None:
    return _exp(_quotient(sums * (-1, 1)))


def _ece(sums: Floats) -> float:
    return float(abs(sums[:-1]).sum() / sums[-1])


@aggregation("ratio", version=2, clusters=True, terms=True, recount=recounted_sums(_quotient))
def ratio(rows: CountedRows) -> Aggregate:
    """Σa/Σb with the linearised standard error of a ratio and Student's interval, over samples or clusters.

    A metric leaves ``components={value key: [a, b]}``: for example instructions followed and given, or bits and bytes.
    """
    sums, sizes = summed_terms(rows)
    if not len(sums):
        return Aggregate(None, samples=0)
    estimate = _ratio(sums[:, 0], sums[:, 1], int(sizes.sum()))
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    low, high = rows.scale.clipped(estimate.value, estimate.low, estimate.high)
    return replace(estimate, low=low, high=high)


@aggregation("perplexity", version=2, clusters=True, terms=True, recount=recounted_sums(_perplexity))
def perplexity(rows: CountedRows) -> Aggregate:
    """exp(−Σll/Σsize): word perplexity for sizes in words, byte perplexity for bytes.

    A metric leaves ``components={value key: [ll, size]}``. The interval is that of the exponent, so it is not
    symmetric; the standard error is the exponent's times the value (delta method).
    """
    sums, sizes = summed_terms(rows)
    if not len(sums):
        return Aggregate(None, samples=0)
    nats = _ratio(-sums[:, 0], sums[:, 1], int(sizes.sum()))
    value = _exp(nats.value)
    if value is None:
        return Aggregate(None, samples=nats.samples)
    stderr = None if nats.stderr is None else nats.stderr * value
    low, high = _exp(nats.low), _exp(nats.high)
    if low is None or high is None:
        return Aggregate(value, stderr, samples=nats.samples)
    return Aggregate(value, stderr, *rows.scale.clipped(value, low, high), nats.interval, nats.samples)


@aggregation("corpus_ece", version=1, clusters=True, terms=True, recount=recounted_sums(_ece))
def corpus_ece(rows: CountedRows) -> Aggregate:
    """Σ over bins of |Σa| / Σn, the calibration error of metric ``ece``. Bootstrap over samples.

    A metric leaves ``components={value key: [right − confidence by bin, 1]}``.
    """
    return corpus_number(rows, _ece)


def _ratio(tops: Floats, bottoms: Floats, samples: int) -> Aggregate:
    value, stderr = ratio_stderr(tops, bottoms)
    interval = None if value is None else t_interval(value, stderr, len(tops) - 1)
    if interval is None:
        return Aggregate(value, stderr, samples=samples)
    return Aggregate(value, stderr, interval.low, interval.high, "t", samples)


def _exp(exponent: float | None) -> float | None:
    """None also where the result is too large for a float."""
    try:
        return None if exponent is None else math.exp(exponent)
    except OverflowError:
        return None
