"""The gate: is a metric worse, by more than the tolerance, and by more than chance explains?

regressed      difference < −tolerance, and Holm's one-sided p ≤ alpha
improved       Holm's one-sided p ≤ alpha, upwards
passed         the lower bound is above −tolerance
inconclusive   otherwise, with the number of rows that would decide
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal, TypeAlias

from gage_eval.stats.evidence import REPEATS_ADVISED, REPEATS_FOR_NOISE, Evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.multiple import holm
from gage_eval.stats.planned import RowSpread, detectable_loss

Verdict: TypeAlias = Literal["regressed", "improved", "passed", "inconclusive"]

MAX_UNPAIRED_SHARE = 0.01
UNKNOWN_ERROR = "how much the number varies is not known, so the difference has no interval and no test"


@dataclass(frozen=True)
class MetricVerdict:
    """The verdict on one metric.

    Attributes:
        evidence: the numbers behind it.
        verdict: see the module.
        holds: whether the bound (or, in tolerance mode, the difference) alone would pass.
        p_worse, p_better: adjusted by Holm over the declared metrics.
        detectable: the smallest true loss that this gate finds with a chance of 80 %; None if unknown.
        rows_needed: how many rows would decide; None unless the verdict is inconclusive and rows would help.
        notes: what else a reader must know.
    """

    evidence: Evidence
    verdict: Verdict
    holds: bool
    p_worse: float
    p_better: float
    detectable: float | None = None
    rows_needed: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def p(self) -> float:
        """The one-sided p value of a gain if the verdict is improved, else that of a loss."""
        return self.p_better if self.verdict == "improved" else self.p_worse


def decide(
    by_metric: Mapping[str, Evidence],
    rule: GateRule | None = None,
    *,
    unpaired: Mapping[str, float] | None = None,
    rules: Mapping[str, GateRule] | None = None,
    spreads: Mapping[str, RowSpread] | None = None,
) -> dict[str, MetricVerdict]:
    """The verdict on each declared metric.

    Args:
        by_metric: the evidence by the metric's name. Each task declares one metric; together they are the family of
            Holm's method.
        rule: tolerance and level.
        unpaired: by name, the share of rows that only one run has scored. More than 1 % leaves the metric undecided.
        rules: by name, those of metrics with rules of their own.
        spreads: by name, how rows vary between runs of the same model, for what the gate finds; what the evidence shows
            by default, unless all its rows are the same.
    """
    default = rule or GateRule()
    worse = holm({name: evidence.p_worse for name, evidence in by_metric.items()})
    better = holm({name: evidence.p_better for name, evidence in by_metric.items()})
    decided = {}
    for name, evidence in by_metric.items():
        own = (rules or {}).get(name, default)
        verdict = _decide(evidence, worse[name], better[name], own, (unpaired or {}).get(name, 0.0))
        if own.mode == "significance" and evidence.difference is not None:
            loss = detectable_loss(evidence, own, (spreads or {}).get(name), family=len(by_metric))
            verdict = replace(verdict, detectable=loss)
        decided[name] = verdict
    return decided


def _decide(evidence: Evidence, p_worse: float, p_better: float, rule: GateRule, unpaired: float) -> MetricVerdict:
    if evidence.difference is None:
        why = "the number does not exist for these rows" if evidence.n else "no row is scored in both runs"
        return MetricVerdict(evidence, "inconclusive", holds=False, p_worse=1, p_better=1, notes=(why,))
    if unpaired > MAX_UNPAIRED_SHARE:
        share = f"{unpaired:.1%} of the rows are scored in one run only"
        return MetricVerdict(evidence, "inconclusive", holds=False, p_worse=p_worse, p_better=p_better, notes=(share,))
    if rule.mode == "tolerance":
        regressed = _loses_more_than(rule.tolerance, evidence.difference)
        return MetricVerdict(evidence, "regressed" if regressed else "passed", not regressed, p_worse, p_better)
    notes = _notes(evidence)
    holds = evidence.low > -rule.tolerance and evidence.too_skewed != "better"
    verdict: Verdict = "inconclusive"
    if (
        _loses_more_than(rule.tolerance, evidence.difference)
        and p_worse <= rule.alpha
        and evidence.too_skewed != "worse"
    ):
        verdict = "regressed"
    elif p_better <= rule.alpha and evidence.too_skewed != "better":
        verdict = "improved"
    elif holds:
        verdict = "passed"
    needed = rows_needed(evidence, rule) if verdict == "inconclusive" else None
    return MetricVerdict(evidence, verdict, holds, p_worse, p_better, rows_needed=needed, notes=notes)


def _loses_more_than(tolerance: float, difference: float) -> bool:
    """Whether a difference, positive where the current run is better, is a loss above the tolerance."""
    # Rounded first: 0.78 − 0.80 is −0.020000000000000018 in floats, and not more than 0.02 below.
    return round(difference, 6) < -tolerance


def rows_needed(evidence: Evidence, rule: GateRule) -> int | None:
    """The number of rows that would decide, if the difference and the spread stay as they are.

    (z·s_d/(d + tolerance))² for the bound to pass if d > −tolerance, else (z·s_d/d)² for the loss to be significant.

    Returns:
        None if more rows would not decide.
    """
    if evidence.difference is None or evidence.sd is None:
        return None
    z = NormalDist().inv_cdf(1 - rule.alpha)
    distance = evidence.difference + rule.tolerance if evidence.difference > -rule.tolerance else evidence.difference
    if distance == 0:
        return None
    needed = (z * evidence.sd / distance) ** 2
    if evidence.difference > -rule.tolerance:
        # Even without a discordant pair, the bound lies span · z²/(n + z²) below.
        needed = max(needed, z * z * (evidence.span - distance) / distance)
    return max(2, math.ceil(needed))


def _notes(evidence: Evidence) -> tuple[str, ...]:
    notes = []
    if evidence.test == "none":
        notes.append(UNKNOWN_ERROR)
    elif evidence.noise is None:
        few = f"the baseline has fewer than {REPEATS_FOR_NOISE} repeats"
        notes.append(f"run noise not estimated: {few}, and {REPEATS_ADVISED} are recommended")
    if evidence.too_skewed == "worse":
        notes.append("a few large gains among many small losses: too few rows to call a loss significant")
    elif evidence.too_skewed == "better":
        notes.append("a few large losses among many small gains: too few rows to trust the bound")
    return tuple(notes)
