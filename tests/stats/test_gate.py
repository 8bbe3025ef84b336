"""Promises of the gate's verdicts, metric by metric and for a suite."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.stats.evidence import Evidence, PairedRows, evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.planned import RowSpread, planned_loss
from gage_eval.stats.sequential import alarm, promise
from gage_eval.stats.verdicts import decide, rows_needed


def right_and_wrong(n: int, better: int, worse: int) -> Evidence:
    """Evidence of n answers, of which some changed."""
    baseline, current = np.ones(n), np.ones(n)
    baseline[:better] = 0
    current[better : better + worse] = 0
    return evidence(PairedRows(current, baseline[None], binary=True))


def verdict(numbers: Evidence, rule: GateRule | None = None) -> str:
    return decide({"m": numbers}, rule)["m"].verdict


@pytest.mark.parametrize(
    ("n", "better", "worse", "expected"),
    [
        (1000, 10, 50, "regressed"),
        (1000, 60, 10, "improved"),
        (2000, 20, 24, "passed"),
        (100, 3, 5, "inconclusive"),
        # Significant, and smaller than the tolerance.
        (10_000, 20, 60, "passed"),
        # Beyond the tolerance, and not significant.
        (100, 2, 6, "inconclusive"),
        (2, 0, 0, "inconclusive"),
        (1000, 0, 0, "passed"),
    ],
)
def test_a_verdict_needs_effect_and_confidence(n: int, better: int, worse: int, expected: str) -> None:
    assert verdict(right_and_wrong(n, better, worse)) == expected


def test_the_p_that_is_shown_is_that_of_the_claim() -> None:
    gain, loss = (decide({"m": right_and_wrong(1000, *moved)})["m"] for moved in ((60, 10), (10, 60)))
    assert (gain.verdict, loss.verdict) == ("improved", "regressed")
    assert gain.p == loss.p < 0.001


def test_less_is_better_where_the_metric_says_so() -> None:
    rng = np.random.default_rng(0)
    baseline = rng.random(500)
    more = evidence(PairedRows(baseline + 0.1 + 0.01 * rng.random(500), baseline[None], higher_is_better=False))
    assert verdict(more) == "regressed"
    assert more.difference is not None
    assert more.difference < 0
    # The field of the simple rule is the plain difference of the two scores.
    assert more.delta == round(-more.difference, 6)


def test_rows_needed_are_those_of_the_formula() -> None:
    better = Evidence(100, "t", difference=0.01, sd=0.4, stderr=0.04)
    assert rows_needed(better, GateRule()) == pytest.approx((1.6448536 * 0.4 / 0.03) ** 2, abs=1)
    worse = Evidence(100, "t", difference=-0.05, sd=0.4, stderr=0.04)
    assert rows_needed(worse, GateRule()) == pytest.approx((1.6448536 * 0.4 / 0.05) ** 2, abs=1)
    assert rows_needed(Evidence(100, "t", difference=0.0, sd=0.4, stderr=0.04), GateRule(tolerance=0)) is None


def test_a_tenth_more_than_the_rows_needed_decide() -> None:
    few = right_and_wrong(100, 2, 3)
    needed = decide({"m": few})["m"].rows_needed
    assert needed is not None
    factor = -(-needed * 11 // 1000)
    assert verdict(right_and_wrong(100 * factor, 2 * factor, 3 * factor)) != "inconclusive"


def test_several_tasks_share_one_level() -> None:
    worse = right_and_wrong(1000, 22, 45)
    assert verdict(worse) == "regressed"
    many = {f"task {number}": right_and_wrong(1000, 10, 10) for number in range(30)}
    verdicts = decide({**many, "worse": worse})
    assert verdicts["worse"].p_worse > 0.05
    assert verdicts["worse"].verdict == "inconclusive"


@pytest.mark.parametrize(("spread", "counts"), [(0.02, False), (0.2, True)])
def test_noise_between_runs_counts_only_where_its_own_test_finds_it(spread: float, counts: bool) -> None:
    rng = np.random.default_rng(2)
    baseline = rng.random((3, 200)) + spread * np.array([[-1], [0], [1]])
    numbers = evidence(PairedRows(rng.random(200), baseline))
    assert numbers.noise is not None
    assert numbers.noise.variance > 0
    assert (numbers.noise.p < 0.25) == counts
    assert numbers.sd is not None
    assert numbers.stderr is not None
    assert (numbers.stderr > numbers.sd / 200**0.5 * 1.01) == counts


def test_bounds_that_few_pairs_do_not_show_are_unknown() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.9, 0.3])
    for n, known in ((4, False), (5, True)):
        numbers = evidence(PairedRows(values[:n], 1 - values[None, :n]))
        assert (numbers.bounds is not None) == known
        assert numbers.low > -np.inf
    # Tango's interval is one of few pairs, too.
    assert right_and_wrong(3, 1, 1).bounds is not None


def test_equal_rows_claim_no_power() -> None:
    for rows in (np.ones(10), np.zeros(10), np.full(10, 0.3)):
        for current in (rows, rows - 0.1):
            same = decide({"m": evidence(PairedRows(current, rows[None], binary=False))})["m"]
            assert same.detectable is None
    assert decide({"m": right_and_wrong(10, 0, 0)})["m"].detectable is None
    assert decide({"m": right_and_wrong(30, 0, 1)})["m"].detectable is not None


def test_the_gate_promises_no_more_than_a_plan_of_the_same_rows() -> None:
    numbers = right_and_wrong(400, 12, 12)
    spread = RowSpread.of(numbers)
    assert spread is not None
    assert (spread.binary, spread.width) == (True, 1.0)
    rule = GateRule(tolerance=0)
    for family in (1, 3):
        by_metric = {str(number): numbers for number in range(family)}
        assert decide(by_metric, rule)["0"].detectable == planned_loss(spread, 400, rule, family=family)
    # What the runs show of each other is not the model's own noise, where repeats show that.
    quiet = RowSpread(0.0, 1.0, binary=True, repeats=5)
    loss = decide({"m": numbers}, rule, spreads={"m": quiet})["m"].detectable
    assert loss == planned_loss(quiet, 400, rule)
    assert loss is not None
    assert loss < (planned_loss(spread, 400, rule) or 0)


def test_the_bound_of_equal_rows_is_in_units_of_the_metric() -> None:
    rows = np.full(30, 7.0)
    share, rating = (evidence(PairedRows(rows, rows[None], width=width)) for width in (1, 9))
    assert rating.low == pytest.approx(9 * share.low)
    rule = GateRule(tolerance=0.1)
    needed = decide({"m": rating}, rule)["m"].rows_needed
    assert verdict(rating, rule) == "inconclusive"
    assert needed is not None
    enough = np.full(needed, 7.0)
    assert verdict(evidence(PairedRows(enough, enough[None], width=9)), rule) == "passed"
    # Without a declared range, the values show how far they can lie apart.
    ranged = np.arange(30.0)
    assert evidence(PairedRows(ranged, ranged[None])).low == pytest.approx(29 * share.low)


def test_a_metric_with_many_unpaired_rows_is_inconclusive() -> None:
    worse = right_and_wrong(1000, 0, 80)
    assert decide({"m": worse}, unpaired={"m": 0.01})["m"].verdict == "regressed"
    open_ = decide({"m": worse}, unpaired={"m": 0.011})["m"]
    assert open_.verdict == "inconclusive"
    assert not open_.holds
    assert "scored in one run only" in open_.notes[0]
    assert decide({"m": evidence(PairedRows(np.empty(0), np.empty((1, 0))))})["m"].verdict == "inconclusive"


def test_the_tolerance_mode_needs_no_test() -> None:
    rule = GateRule(mode="tolerance", tolerance=0.02)
    assert verdict(right_and_wrong(100, 0, 3), rule) == "regressed"
    assert verdict(right_and_wrong(100, 0, 2), rule) == "passed"
    # 0.78 − 0.80 is −0.020000000000000018 in floats.
    means = evidence(PairedRows(np.full(3, 0.78), np.full((1, 3), 0.80)))
    assert verdict(means, rule) == "passed"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5), st.booleans())
def test_the_tolerance_mode_knows_a_loss_above_the_tolerance(
    now: float, before: float, tolerance: float, higher_is_better: bool
) -> None:
    rows = PairedRows(np.full(1, now), np.full((1, 1), before), higher_is_better=higher_is_better)
    loss = before - now if higher_is_better else now - before
    rule = GateRule(mode="tolerance", tolerance=tolerance)
    assert (verdict(evidence(rows), rule) == "regressed") == (round(loss, 6) > tolerance)


def test_a_loss_as_large_as_the_tolerance_is_none_in_either_mode() -> None:
    means = evidence(PairedRows(np.full(2000, 0.78), np.full((1, 2000), 0.80)))
    for mode in ("tolerance", "significance"):
        assert verdict(means, GateRule(mode=mode, tolerance=0.02)) != "regressed"
        assert verdict(means, GateRule(mode=mode, tolerance=0.019)) == "regressed"


def test_rare_large_gains_among_small_losses_do_not_prove_a_loss() -> None:
    differences = np.full(500, -0.03) + np.random.default_rng(1).normal(0, 0.001, 500)
    differences[0] = 0.9
    numbers = evidence(PairedRows(differences, np.zeros((1, 500))))
    assert numbers.too_skewed == "worse"
    assert numbers.p_worse < 0.001
    assert verdict(numbers, GateRule(tolerance=0)) == "inconclusive"


def test_rare_large_losses_among_small_gains_prove_no_gain_and_no_bound() -> None:
    differences = np.full(500, 0.03) + np.random.default_rng(1).normal(0, 0.001, 500)
    differences[0] = -0.9
    decision = decide({"m": evidence(PairedRows(differences, np.zeros((1, 500))))})["m"]
    assert decision.verdict == "inconclusive"
    assert not decision.holds


def test_a_baseline_whose_repeats_move_widens_the_bound() -> None:
    rng = np.random.default_rng(3)
    rows = rng.random(400)
    baseline = np.stack([rows + shift + rng.normal(0, 0.01, 400) for shift in (-0.06, -0.02, 0.0, 0.03, 0.05)])
    shaken = evidence(PairedRows(rows - 0.03, baseline))
    alone = evidence(PairedRows(rows - 0.03, baseline.mean(axis=0)[None]))
    assert verdict(alone) == "regressed"
    assert verdict(shaken) == "inconclusive"
    assert any("fewer than 3 repeats" in note for note in decide({"m": alone})["m"].notes)
    assert decide({"m": shaken})["m"].notes == ()


def test_clusters_take_their_own_degrees_of_freedom() -> None:
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(12), 40)
    shift = rng.normal(-0.03, 0.15, 12)[clusters]
    rows = PairedRows(np.clip(0.5 + shift, 0, 1), np.full((1, 480), 0.5))
    assert evidence(rows).p_worse < 0.05
    grouped = PairedRows(rows.current, rows.baseline, clusters=clusters)
    assert evidence(grouped).p_worse > evidence(rows).p_worse


def test_equal_runs_of_two_rows_are_not_certain() -> None:
    same = evidence(PairedRows(np.array([0.3, 0.7]), np.array([[0.3, 0.7]])))
    assert same.low < -0.02 < same.high
    assert verdict(same) == "inconclusive"


def test_the_alarm_promises_the_level_of_its_rule() -> None:
    assert "probability at most 5 %" in promise(GateRule())
    said = promise(GateRule(alpha=0.2))
    assert "probability at most 20 %" in said
    assert "up to 4 false alarms a year" in said


def test_the_alarm_rings_at_a_years_share_of_the_level() -> None:
    rng = np.random.default_rng(8)
    repeats = (rng.random((5, 2000)) < 0.5).astype(float)
    bad, fair = np.zeros(2000), repeats[0]
    rule = GateRule(tolerance=0)
    ringing = evidence(PairedRows(bad, repeats))
    quiet = evidence(PairedRows(fair, repeats))
    assert alarm(ringing, rule, year=2027, repeats=5).rings
    assert alarm(ringing, rule, year=2027, repeats=5).level == 0.05 / 365
    assert alarm(ringing, rule, year=2028, repeats=5).level == 0.05 / 366
    assert not alarm(quiet, rule, year=2027, repeats=5).rings
    few = alarm(ringing, rule, year=2027, repeats=4)
    assert not few.rings
    assert few.withheld is not None
    shaken = repeats + rng.normal(0, 0.05, (5, 1))
    assert alarm(evidence(PairedRows(bad, shaken)), rule, year=2027, repeats=5).withheld is not None


@pytest.mark.parametrize("field", ["tolerance", "alpha"])
def test_a_rule_refuses_impossible_values(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        GateRule.model_validate({field: -1})
