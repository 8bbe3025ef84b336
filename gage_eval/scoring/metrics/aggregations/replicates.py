"""Aggregations that combine a sample's replicates, then take the mean over samples.

A replicate is right when it has full credit: 1, unless the metric declares another value. Samples with too few scored
replicates (an endpoint failed) are left out, and ``samples`` holds the number of samples that are left.
"""

import numpy as np

from gage_eval.scoring.metrics.aggregations.base import Aggregate, Counted, Floats, aggregation, mean_of
from gage_eval.scoring.metrics.scale import SHARE
from gage_eval.stats import at_least_k, majority_value, modal_value, pass_at_k, pass_hat_k


@aggregation("pass@{k}", version=3, clusters=True, counts_right=True)
def pass_at(rows: Counted, *, k: int) -> Aggregate:
    """The chance that one of k answers is right: 1 − C(n−c, k)/C(n, k) per sample (HumanEval)."""
    return mean_of(rows.reduced(lambda values: pass_at_k(len(values), _right(rows, values), k), SHARE))


@aggregation("pass^{k}", version=3, clusters=True, counts_right=True)
def pass_hat(rows: Counted, *, k: int) -> Aggregate:
    """The chance that all of k answers are right: C(c, k)/C(n, k) per sample (τ-bench)."""
    return mean_of(rows.reduced(lambda values: pass_hat_k(len(values), _right(rows, values), k), SHARE))


@aggregation("at_least@{k}", version=3, clusters=True, counts_right=True)
def at_least(rows: Counted, *, k: int) -> Aggregate:
    """The share of samples with k or more right answers."""
    return mean_of(rows.reduced(lambda values: at_least_k(len(values), _right(rows, values), k), SHARE))


@aggregation("best", version=3, clusters=True)
def best(rows: Counted) -> Aggregate:
    """The mean of each sample's best replicate."""
    best_of = np.min if rows.scale.higher_is_better is False else np.max
    return mean_of(rows.reduced(lambda values: float(best_of(values))))


@aggregation("mode", version=2, clusters=True)
def mode(rows: Counted) -> Aggregate:
    """The mean of each sample's most frequent value; of equally frequent values the first one counts."""
    return mean_of(rows.reduced(lambda values: modal_value(values.tolist())))


@aggregation("majority", version=2, clusters=True)
def majority(rows: Counted) -> Aggregate:
    """The mean of the value that more than half of a sample's replicates have; other samples are left out."""
    return mean_of(rows.reduced(lambda values: majority_value(values.tolist())))


def _right(rows: Counted, values: Floats) -> int:
    return sum(map(rows.scale.is_right, values.tolist()))
