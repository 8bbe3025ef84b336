"""Uncertainty for scores from anywhere: intervals, paired comparison, power, the gate and its alarm.

    from gage_eval import stats

    stats.compare([1, 0, 1, 1], [1, 0, 0, 1]).p

Public are the names in ``__all__``; docs/statistics.md shows them on plain arrays and frames. This package does not
depend on tables, metrics or configs. An unknown number is None, never 0.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gage_eval.stats.agreement import cohen_kappa, confusion, krippendorff_alpha
from gage_eval.stats.bootstrap import BootstrapResult, bootstrap_stderr, bootstrap_sums
from gage_eval.stats.clusters import clustered_stderr, clustered_wilson_interval, ratio_stderr, weighted_mean_stderr
from gage_eval.stats.corpus import bits_per_byte, f1, matthews_correlation, perplexity, weighted_perplexity
from gage_eval.stats.corrected import (
    LEAST_CLUSTERS,
    LEAST_LABELS,
    Corrected,
    Stratum,
    corrected_clusters,
    corrected_difference,
    corrected_mean,
    corrected_share,
    labels_to_decide,
)
from gage_eval.stats.intervals import (
    Interval,
    MeanStderr,
    mean_stderr,
    reduce_replicates,
    t_interval,
    t_quantile,
    wilson_interval,
)
from gage_eval.stats.logits import length_controlled_win_rate
from gage_eval.stats.multiple import holm
from gage_eval.stats.paired import PairedDifference, paired_difference
from gage_eval.stats.paired_binary import mcnemar, mcnemar_mid_p, tango_interval
from gage_eval.stats.pairwise import (
    BothOrders,
    Ratings,
    both_orders,
    bradley_terry,
    rating_intervals,
    style_difference,
)
from gage_eval.stats.pooling import macro_freedom, macro_mean, macro_stderr, mover_interval, pooled_mean, pooled_stderr
from gage_eval.stats.power import difference_sd, minimum_detectable_effect, required_samples
from gage_eval.stats.quantiles import quantile, quantile_interval, repeated_quantile
from gage_eval.stats.replicates import at_least_k, majority_value, modal_value, pass_at_k, pass_hat_k
from gage_eval.stats.special import t_tail

if TYPE_CHECKING:
    from gage_eval.stats.arrays import PairedScores, ScoreInterval, compare, gate, pair, score_interval
    from gage_eval.stats.evidence import Evidence
    from gage_eval.stats.gate_rule import GateRule
    from gage_eval.stats.sequential import Alarm, alarm
    from gage_eval.stats.verdicts import MetricVerdict

# Loaded when they are first used: scoring needs none of them.
_LATE = {
    "arrays": ("PairedScores", "ScoreInterval", "compare", "gate", "pair", "score_interval"),
    "evidence": ("Evidence",),
    "sequential": ("Alarm", "alarm"),
    "gate_rule": ("GateRule",),
    "verdicts": ("MetricVerdict",),
}
_HOMES = {name: module for module, names in _LATE.items() for name in names}

__all__ = [
    "LEAST_CLUSTERS",
    "LEAST_LABELS",
    "Alarm",
    "BootstrapResult",
    "BothOrders",
    "Corrected",
    "Evidence",
    "GateRule",
    "Interval",
    "MeanStderr",
    "MetricVerdict",
    "PairedDifference",
    "PairedScores",
    "Ratings",
    "ScoreInterval",
    "Stratum",
    "alarm",
    "at_least_k",
    "bits_per_byte",
    "bootstrap_stderr",
    "bootstrap_sums",
    "both_orders",
    "bradley_terry",
    "clustered_stderr",
    "clustered_wilson_interval",
    "cohen_kappa",
    "compare",
    "confusion",
    "corrected_clusters",
    "corrected_difference",
    "corrected_mean",
    "corrected_share",
    "difference_sd",
    "f1",
    "gate",
    "holm",
    "krippendorff_alpha",
    "labels_to_decide",
    "length_controlled_win_rate",
    "macro_freedom",
    "macro_mean",
    "macro_stderr",
    "majority_value",
    "matthews_correlation",
    "mcnemar",
    "mcnemar_mid_p",
    "mean_stderr",
    "minimum_detectable_effect",
    "modal_value",
    "mover_interval",
    "pair",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "perplexity",
    "pooled_mean",
    "pooled_stderr",
    "quantile",
    "quantile_interval",
    "rating_intervals",
    "ratio_stderr",
    "reduce_replicates",
    "repeated_quantile",
    "required_samples",
    "score_interval",
    "style_difference",
    "t_interval",
    "t_quantile",
    "t_tail",
    "tango_interval",
    "weighted_mean_stderr",
    "weighted_perplexity",
    "wilson_interval",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gage_eval.stats' has no attribute '{name}'")
    return getattr(import_module(f"gage_eval.stats.{_HOMES[name]}"), name)
