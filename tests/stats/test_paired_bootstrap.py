"""Promises of the paired bootstrap: for a mean it agrees with Student, and it does not say what it cannot know."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from gage_eval.stats.evidence import Evidence, Floats, PairedRows, evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.paired_bootstrap import Ints, PairedNumbers, Recount, paired_bootstrap
from gage_eval.stats.verdicts import UNKNOWN_ERROR, decide

N = 300


def mean_of(values: Floats) -> Recount:
    def recount(times: Ints) -> float:
        return float(np.average(values, weights=times))

    return recount


def compared(current: Floats, *baseline: Floats, clusters: Ints | None = None, better: bool = True) -> Evidence:
    """The difference of two means, by the bootstrap."""
    numbers = PairedNumbers(mean_of(current), list(map(mean_of, baseline)))
    rows = PairedRows(current, np.stack(baseline), clusters, higher_is_better=better, numbers=numbers)
    return evidence(rows)


@pytest.mark.parametrize("better", [True, False])
@pytest.mark.parametrize("clustered", [True, False])
def test_of_a_mean_it_says_what_student_s_test_says(better: bool, clustered: bool) -> None:
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(30), 10) if clustered else None
    shift = rng.normal(0, 0.3, 30)[clusters] if clusters is not None else 0.0
    baseline = rng.normal(0, 1, N)
    current = baseline + rng.normal(0.1, 1, N) + shift
    numbers = compared(current, baseline, clusters=clusters, better=better)
    plain = evidence(PairedRows(current, baseline[None], clusters, higher_is_better=better))
    assert (numbers.test, plain.test) == ("bootstrap", "t")
    assert numbers.difference == pytest.approx(plain.difference)
    assert (numbers.baseline, numbers.current) == pytest.approx((plain.baseline, plain.current))
    assert numbers.stderr == pytest.approx(plain.stderr, rel=0.1)
    assert (numbers.low, numbers.high) == pytest.approx((plain.low, plain.high), abs=0.15 * (plain.high - plain.low))
    assert (numbers.p_worse, numbers.p_better) == pytest.approx((plain.p_worse, plain.p_better), abs=0.03)


def test_the_same_rows_give_the_same_numbers_each_time() -> None:
    rng = np.random.default_rng(1)
    current, baseline = rng.random(50), rng.random(50)
    assert compared(current, baseline) == compared(current, baseline)


def test_a_loss_that_every_draw_shows_has_a_p_value_below_that_of_the_draws() -> None:
    rng = np.random.default_rng(1)
    baseline = rng.random(N)
    numbers = compared(baseline - 0.2 - 0.5 * rng.random(N), baseline)
    assert numbers.p_worse < 1e-6
    assert numbers.p_better > 0.99


def test_repeats_that_differ_more_than_their_rows_widen_the_bounds() -> None:
    rng = np.random.default_rng(2)
    current = rng.random(N)
    quiet = compared(current, *(rng.random(N) for _ in range(5)))
    shaken = compared(current, *(rng.random(N) + 0.2 * shift for shift in (-1, -0.5, 0, 0.5, 1)))
    assert quiet.noise is not None
    assert shaken.noise is not None
    assert shaken.noise.p < 0.01 < quiet.noise.p
    assert quiet.stderr is not None
    assert shaken.stderr is not None
    assert shaken.stderr > 2 * quiet.stderr
    assert compared(current, rng.random(N)).noise is None


def test_equal_rows_claim_no_power() -> None:
    rows = np.full(10, 0.5)
    same = decide({"m": compared(rows, rows)}, GateRule())["m"]
    assert (same.verdict, same.detectable) == ("inconclusive", None)


def undefined(_times: Ints) -> float:
    return math.nan


def rare(times: Ints) -> float:
    """It exists only where the first sample is drawn."""
    return 1.0 if times[0] else math.nan


@pytest.mark.parametrize(("recount", "known"), [(undefined, False), (rare, True)])
def test_a_number_that_some_draws_lack_is_not_tested(recount: Callable[[Ints], float], known: bool) -> None:
    rows = np.zeros(20)
    numbers = evidence(PairedRows(rows, rows[None], numbers=PairedNumbers(recount, [recount])))
    assert (numbers.test, numbers.bounds, numbers.difference) == ("none", None, 0 if known else None)
    decision = decide({"m": numbers})["m"]
    assert decision.verdict == "inconclusive"
    assert decision.notes == ((UNKNOWN_ERROR,) if known else ("the number does not exist for these rows",))


def test_one_sample_or_one_cluster_shows_no_error() -> None:
    numbers = PairedNumbers(mean_of(np.ones(4)), [mean_of(np.ones(4))])
    assert paired_bootstrap(numbers, 4, np.zeros(4, np.int64)) is None
    assert paired_bootstrap(numbers, 1) is None


def test_the_number_of_some_pairs_is_that_of_these_alone() -> None:
    values = np.arange(10.0)
    some = np.array([2, 5, 9])
    part = PairedNumbers(mean_of(values), [mean_of(values)]).of_pairs(some, 10)
    assert part.values(np.array([1, 1, 2])).tolist() == [(2 + 5 + 18) / 4] * 2
