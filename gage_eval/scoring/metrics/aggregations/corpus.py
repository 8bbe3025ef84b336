"""Aggregations of sums over the whole set of answers, from ``Score.components``."""

import math

from gage_eval.scoring.metrics.aggregations.base import (
    Aggregate,
    CountedRows,
    Floats,
    aggregation,
    corpus_number,
    recounted_sums,
    summed_terms,
)
from gage_eval.stats import Interval, ratio_stderr, t_interval


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
    value, stderr, interval = _ratio(sums[:, 0], sums[:, 1])
    return Aggregate.of(value, stderr, interval, "t", int(sizes.sum()), rows.scale)


@aggregation("perplexity", version=2, clusters=True, terms=True, recount=recounted_sums(_perplexity))
def perplexity(rows: CountedRows) -> Aggregate:
    """exp(−Σll/Σsize): word perplexity for sizes in words, byte perplexity for bytes.

    A metric leaves ``components={value key: [ll, size]}``. The interval is that of the exponent, so it is not
    symmetric; the standard error is the exponent's times the value (delta method).
    """
    sums, sizes = summed_terms(rows)
    if not len(sums):
        return Aggregate(None, samples=0)
    nats, error, around = _ratio(-sums[:, 0], sums[:, 1])
    value = _exp(nats)
    low, high = (None, None) if around is None else map(_exp, around)
    interval = None if low is None or high is None else Interval(low, high)
    stderr = None if error is None or value is None else error * value
    return Aggregate.of(value, stderr, interval, "t", int(sizes.sum()), rows.scale)


@aggregation("corpus_ece", version=1, clusters=True, terms=True, recount=recounted_sums(_ece))
def corpus_ece(rows: CountedRows) -> Aggregate:
    """Σ over bins of |Σa| / Σn, the calibration error of metric ``ece``. Bootstrap over samples.

    A metric leaves ``components={value key: [right − confidence by bin, 1]}``.
    """
    return corpus_number(rows, _ece)


def _ratio(tops: Floats, bottoms: Floats) -> tuple[float | None, float | None, Interval | None]:
    value, stderr = ratio_stderr(tops, bottoms)
    return value, stderr, None if value is None else t_interval(value, stderr, len(tops) - 1)


def _exp(exponent: float | None) -> float | None:
    """None also where the result is too large for a float."""
    try:
        return None if exponent is None else math.exp(exponent)
    except OverflowError:
        return None
