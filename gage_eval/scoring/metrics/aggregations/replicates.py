"""Aggregations that combine a sample's replicates, then take the mean over samples.

A replicate is right when it has full credit: 1, unless the metric declares another value. Samples with too few scored
replicates (an endpoint failed) are left out, and ``samples`` holds the number of samples that are left.
"""

from collections.abc import Sequence

from gage_eval.scoring.metrics.aggregations.base import mean_over_samples
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.stats import at_least_k, majority_value, modal_value, pass_at_k, pass_hat_k


@mean_over_samples("pass@{k}", version=3, counts_right=True)
def pass_at(values: Sequence[float], scale: Scale, *, k: int) -> float | None:
    """The chance that one of k answers is right: 1 − C(n−c, k)/C(n, k) per sample (HumanEval)."""
    return pass_at_k(len(values), sum(map(scale.is_right, values)), k)


@mean_over_samples("pass^{k}", version=3, counts_right=True)
def pass_hat(values: Sequence[float], scale: Scale, *, k: int) -> float | None:
    """The chance that all of k answers are right: C(c, k)/C(n, k) per sample (τ-bench)."""
    return pass_hat_k(len(values), sum(map(scale.is_right, values)), k)


@mean_over_samples("at_least@{k}", version=3, counts_right=True)
def at_least(values: Sequence[float], scale: Scale, *, k: int) -> float | None:
    """The share of samples with k or more right answers."""
    return at_least_k(len(values), sum(map(scale.is_right, values)), k)


@mean_over_samples("best", version=3)
def best(values: Sequence[float], scale: Scale) -> float:
    """The mean of each sample's best replicate."""
    return min(values) if scale.higher_is_better is False else max(values)


@mean_over_samples("mode", version=2)
def mode(values: Sequence[float], scale: Scale) -> float | None:
    """The mean of each sample's most frequent value; of equally frequent values the first one counts."""
    return modal_value(values)


@mean_over_samples("majority", version=2)
def majority(values: Sequence[float], scale: Scale) -> float | None:
    """The mean of the value that more than half of a sample's replicates have; other samples are left out."""
    return majority_value(values)
