"""Aggregations that combine a sample's replicates, then take the mean over samples.

A replicate is right when it has full credit: 1, unless the metric declares another value. Samples with too few scored
replicates (an endpoint failed) are left out, and ``samples`` holds the number of samples that are left.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gage_eval.scoring.metrics.aggregations.base import (
    Aggregate,
    CountedRows,
    Floats,
    aggregation,
    mean_of,
    mean_over_samples,
)
from gage_eval.scoring.metrics.scale import SHARE, Scale
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


@aggregation("cruxeval_pass@{k}", version=1, clusters=True, terms=True, counts_right=True)
def cruxeval_pass_at(rows: CountedRows, *, k: int) -> Aggregate:
    """pass@k as CRUXEval's scorer computes it: answers that are none (`cruxeval`) are left out of n.

    A sample without a right answer has 0; one with fewer answers than k, of which one is right, has 1. Source:
    facebookresearch/cruxeval, ``evaluation/utils_general.py``, ``evaluate_score`` and ``pass_at_k``.
    """

    def share(values: Floats) -> float:
        answers = values[~np.isnan(values)]
        right = int(np.count_nonzero(answers == 1))
        if not right:
            return 0.0
        chance = pass_at_k(len(answers), right, k)
        return 1.0 if chance is None else chance

    is_no_answer = rows.terms[:, 0] == 1 if rows.terms is not None and rows.terms.size else False
    values = np.where(is_no_answer, np.nan, rows.values)
    return mean_of(replace(rows, values=values).reduced(share, SHARE))
