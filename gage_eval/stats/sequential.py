"""The sequential alarm, which can be checked every night of a year.

A nightly gate compares all nights with one baseline. So the noise of this baseline is in every comparison, and the gate
gives a false alarm in most years. The sequential alarm divides its level among the nights: the level of a night is
alpha divided by the number of nights in the year. By the union bound, the probability of a false alarm in a year is at
most alpha, even if the nights depend on each other.
"""

import calendar
import math
from dataclasses import dataclass

from gage_eval.stats.evidence import REPEATS_ADVISED, Evidence
from gage_eval.stats.gate_rule import GateRule

MAX_NOISE_P = 0.1


def promise(rule: GateRule) -> str:
    """What the alarm promises for a year, for readers."""
    expected = 20 * rule.alpha
    alarms = "one false alarm" if math.isclose(expected, 1) else f"{expected:g} false alarms"
    return (
        "If the model never got worse, this alarm rings at all in 365 nights with probability at most "
        f"{100 * rule.alpha:g} %, whatever the nights share, provided runs differ by independent row noise only. This "
        f"holds per suite, model and metric: with 20 of them, expect up to {alarms} a year. The nightly verdict has no "
        "such promise."
    )


@dataclass(frozen=True)
class Alarm:
    """What the alarm says of one metric tonight.

    Attributes:
        rings: whether it rings.
        level: the highest p value at which it rings.
        withheld: why it cannot ring; None if it can.
    """

    rings: bool
    level: float
    withheld: str | None = None


def alarm(tonight: Evidence, rule: GateRule, *, year: int, repeats: int) -> Alarm:
    """Whether the alarm rings.

    Args:
        tonight: tonight's evidence; its ``noise`` is the test of the baseline's repeats.
        rule: tolerance and the year's level.
        year: the calendar year, whose nights share the level. Promoting a baseline does not start a new year.
        repeats: repeats of the baseline.
    """
    level = rule.alpha / (366 if calendar.isleap(year) else 365)
    if repeats < REPEATS_ADVISED:
        return Alarm(
            rings=False, level=level, withheld=f"the baseline needs {REPEATS_ADVISED} repeats and has {repeats}"
        )
    if tonight.noise is not None and tonight.noise.p < MAX_NOISE_P:
        return Alarm(rings=False, level=level, withheld="the baseline's repeats differ more than their rows explain")
    if tonight.too_skewed == "worse":
        return Alarm(rings=False, level=level, withheld="the differences are too skewed for so few rows")
    worse = tonight.difference is not None and tonight.difference < -rule.tolerance
    return Alarm(rings=worse and tonight.row_p_worse <= level, level=level)
