"""Promises of the gate's power before a run: a loss that it is said to find is found in four of five cases."""

import math

import numpy as np
import pytest

from gage_eval.stats.evidence import PairedRows, evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.planned import RowSpread, planned_loss, planned_rows
from gage_eval.stats.verdicts import decide

DRAWS = 4000
# Four standard errors of a share of 0.8 in so many draws.
ERROR = 4 * math.sqrt(0.8 * 0.2 / DRAWS)


def found(rows: int, flips: float, loss: float, rule: GateRule, family: int = 1) -> float:
    """How often the gate calls a loss a regression, where rows flip both ways as well."""
    draws = np.random.default_rng(35).multinomial(rows, [flips / 2, flips / 2 + loss, 1 - flips - loss], size=DRAWS)
    outcomes, counts = np.unique(draws, axis=0, return_counts=True)
    hits = 0
    for (better, worse, same), count in zip(outcomes.tolist(), counts.tolist(), strict=True):
        before = np.repeat([0.0, 1.0, 1.0], [better, worse, same])
        now = np.repeat([1.0, 0.0, 1.0], [better, worse, same])
        task = evidence(PairedRows(now, before[None, :], binary=True, width=1.0), alpha=rule.alpha)
        unchanged = evidence(PairedRows(before, before[None, :], binary=True, width=1.0), alpha=rule.alpha)
        family_of = {"task": task, **{str(n): unchanged for n in range(family - 1)}}
        hits += count * (decide(family_of, rule)["task"].verdict == "regressed")
    return hits / DRAWS


@pytest.mark.parametrize("flips", [0.0, 0.01, 0.05, 0.2])
@pytest.mark.parametrize(("rows", "tolerance"), [(20, 0.0), (100, 0.0), (200, 0.02), (1319, 0.0), (1319, 0.02)])
def test_a_claimed_loss_is_found_in_four_of_five_cases(rows: int, tolerance: float, flips: float) -> None:
    rule = GateRule(tolerance=tolerance)
    loss = planned_loss(RowSpread(flips, width=1.0, binary=True), rows, rule)
    assert loss is not None
    assert found(rows, flips, loss, rule) >= 0.8 - ERROR


def test_a_claimed_loss_is_found_among_several_tasks() -> None:
    rule = GateRule(tolerance=0.01)
    loss = planned_loss(RowSpread(0.02, width=1.0, binary=True), 500, rule, family=5)
    assert loss is not None
    assert found(500, 0.02, loss, rule, family=5) >= 0.8 - ERROR


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_a_claimed_loss_is_found_against_a_baseline_of_several_repeats(repeats: int) -> None:
    rng, rows, share, draws = np.random.default_rng(36), 400, 0.1, 1000
    rule = GateRule(tolerance=0)
    # A tenth of the rows is right in every second run, so a difference of two runs has the variance 2 · 0.1 / 4.
    loss = planned_loss(RowSpread(share / 2, 1.0, binary=True, repeats=repeats), rows, rule)
    assert loss is not None
    hits = 0
    for _ in range(draws):
        unsure, knows = rng.random(rows) < share, rng.random(rows) < 0.8
        runs = np.where(unsure, rng.random((repeats + 1, rows)) < 0.5, knows).astype(np.float64)
        right = share / 2 + (1 - share) * 0.8
        now = runs[-1] * (rng.random(rows) >= loss / right)
        task = evidence(PairedRows(now, runs[:-1], binary=True, width=1.0), alpha=rule.alpha)
        hits += decide({"task": task}, rule)["task"].verdict == "regressed"
    assert hits / draws >= 0.8 - 4 * math.sqrt(0.8 * 0.2 / draws)


def test_the_larger_of_both_variances_would_promise_too_much() -> None:
    """Why the variances are added: by the larger one, the loss would be found in 60 % of cases or fewer."""
    rows, flips = 500, 0.01
    deviates = 1.645 + 0.842
    loss = next(d / 1e5 for d in range(1, 10**5) if deviates * math.sqrt(max(flips, d / 1e5) / rows) <= d / 1e5)
    assert found(rows, flips, loss, GateRule(tolerance=0)) < 0.65


def test_rows_and_losses_agree_and_more_rows_find_less() -> None:
    rule = GateRule(tolerance=0.005)
    for spread in (RowSpread(0.1, 1.0, binary=True), RowSpread(0.02, 1.0), RowSpread(4.0)):
        rows = planned_rows(0.03, spread, rule)
        assert rows is not None
        at, below = planned_loss(spread, rows, rule), planned_loss(spread, rows - 1, rule)
        assert at is not None
        assert below is not None
        assert at <= 0.03 < below


def test_where_no_number_of_rows_is_enough_there_is_none() -> None:
    spread = RowSpread(0.1, 1.0, binary=True)
    assert planned_rows(0.02, spread, GateRule(tolerance=0.02)) is None
    assert planned_rows(0.02, RowSpread(0.1, 1.0, noise=0.001, repeats=5), GateRule(tolerance=0)) is None
    assert planned_rows(0.02, RowSpread(0.0), GateRule(tolerance=0)) is None
    assert planned_loss(RowSpread(0.0), 1000, GateRule()) is None
    assert planned_loss(spread, 19, GateRule()) is None
    assert planned_loss(RowSpread(0.9, 1.0, binary=True), 20, GateRule(tolerance=0.9)) is None


def test_a_gate_without_a_test_needs_only_the_tolerance() -> None:
    spread = RowSpread(0.05, 1.0, binary=True)
    strict = planned_rows(0.05, spread, GateRule(tolerance=0.02))
    loose = planned_rows(0.05, spread, GateRule(mode="tolerance", tolerance=0.0))
    assert strict is not None
    assert loose is not None
    assert loose < strict
