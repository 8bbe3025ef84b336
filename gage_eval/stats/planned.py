"""What a gate will find: the smallest loss that it finds on so many rows, and the rows that it takes.

The variance of a row's difference is taken as s² + d(w − d) for a loss of d and values in a range of width w: what two
runs without a loss show, and what the loss adds where it is a whole answer turned from right to wrong. The larger of
the two promises too much: a loss of 80 % power by max(s², d(1 − d)) is found in 50 to 75 % of cases where a few rows
flip anyway (tests/stats/test_planned.py). For 0/1 values, a loss is also seen in steps of one row.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

from gage_eval.stats.evidence import REPEATS_ADVISED, REPEATS_FOR_NOISE, Evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.intervals import t_quantile

POWER = 0.8
# On fewer rows the formula does not hold, so nothing is promised.
LEAST_ROWS = 20
# With three or four repeats the gate sometimes sees noise that is not there, and then finds less.
_WITH_FEW_REPEATS = 0.9
_MOST_ROWS = 10**9
_HALVINGS = 60
_ROUNDING = 1e-12


@dataclass(frozen=True)
class RowSpread:
    """How the difference between two runs of the same model varies.

    Attributes:
        variance: of one row's difference.
        width: of the range of values; None without one.
        binary: every value is 0 or 1.
        noise: variance of what all rows of the difference share.
        repeats: runs of the baseline.
    """

    variance: float
    width: float | None = None
    binary: bool = False
    noise: float = 0.0
    repeats: int = 1

    @classmethod
    def of(cls, evidence: Evidence, repeats: int = 1) -> "RowSpread | None":
        """The spread that the difference of two runs shows; None without a standard error.

        Args:
            evidence: of a run against another one, or against several repeats of it.
            repeats: runs of the baseline.
        """
        if evidence.sd is None or evidence.stderr is None:
            return None
        noise = evidence.stderr**2 - evidence.sd**2 / evidence.n
        return cls(evidence.sd**2, evidence.width, evidence.binary, noise if noise > _ROUNDING else 0.0, repeats)


def planned_loss(spread: RowSpread, rows: int, rule: GateRule, *, family: int = 1) -> float | None:
    """The smallest true loss that a gate finds on so many rows with a chance of 80 %.

    Args:
        spread: how rows vary.
        rows: of both runs.
        rule: tolerance, level and mode.
        family: numbers that are decided together, of which this one alone is worse (Holm's first step).

    Returns:
        None where no loss would be found, there are fewer than `LEAST_ROWS` rows, or nothing shows how rows vary.
    """
    if rows < LEAST_ROWS or (spread.width is None and not spread.variance):
        return None
    low, high = rule.tolerance, spread.width or max(1.0, rule.tolerance)
    while spread.width is None and not _is_found(high, spread, rows, rule, family):
        high *= 2
    if not _is_found(high, spread, rows, rule, family):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _is_found(middle, spread, rows, rule, family) else (middle, high)
    return high


def detectable_loss(
    evidence: Evidence, rule: GateRule, spread: RowSpread | None = None, *, family: int = 1
) -> float | None:
    """The smallest true loss that a gate finds on the rows of some evidence with a chance of 80 %.

    Args:
        evidence: of a run against a baseline.
        rule: tolerance, level and mode.
        spread: how rows vary between runs of the same model; what the evidence shows by default.
        family: numbers that are decided together.

    Returns:
        None as for `planned_loss`; and without a spread where every row is the same in both runs.
    """
    if spread is None and evidence.stderr:
        spread = RowSpread.of(evidence, 1 if evidence.noise is None else evidence.noise.repeats)
    return None if spread is None else planned_loss(spread, evidence.n, rule, family=family)


def planned_rows(loss: float, spread: RowSpread, rule: GateRule, *, family: int = 1) -> int | None:
    """The number of rows on which a gate finds a loss with a chance of 80 %.

    Returns:
        None where no number of rows is enough: the tolerance accepts the loss, or whole runs differ by more.
    """
    if loss <= rule.tolerance or (spread.width is None and not spread.variance):
        return None
    is_enough = partial(_is_found, loss, spread, rule=rule, family=family)
    high = LEAST_ROWS
    while not is_enough(high):
        high *= 2
        if high > _MOST_ROWS:
            return None
    return bisect_left(range(high), x=True, lo=LEAST_ROWS, key=is_enough)


def _is_found(loss: float, spread: RowSpread, rows: int, rule: GateRule, family: int) -> bool:
    # Above one half of the range the product falls again, which would promise too much on a handful of rows.
    added = 0.0 if spread.width is None else min(loss, spread.width / 2) * (spread.width - min(loss, spread.width / 2))
    stderr = math.sqrt(spread.noise + (spread.variance + added) / rows)
    level = 1 - rule.alpha / family
    if spread.noise and spread.repeats > 1:
        z = t_quantile(level, spread.repeats - 1)
    else:
        z = NormalDist().inv_cdf(level) if spread.binary else t_quantile(level, rows - 1)
    few = REPEATS_FOR_NOISE <= spread.repeats < REPEATS_ADVISED
    power = NormalDist().inv_cdf(_WITH_FEW_REPEATS if few else POWER)
    needed = rule.tolerance + power * stderr
    if rule.mode == "significance":
        needed = max(needed, (z + power) * stderr)
    step = (spread.width or 1.0) / rows if spread.binary else 0.0
    return needed + step <= loss
