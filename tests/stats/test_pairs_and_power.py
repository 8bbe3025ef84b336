"""Promises of paired comparisons and of power."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.stats import (
    difference_sd,
    mcnemar,
    mean_stderr,
    minimum_detectable_effect,
    paired_difference,
    required_samples,
    t_quantile,
    t_tail,
)

# Student (1908), the sleep of ten patients with two drugs: t = 4.0621, p = 0.00283 (as published since).
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_the_paired_test_is_students() -> None:
    result = paired_difference(DRUG_2, DRUG_1)
    assert result.n == 10
    assert result.difference == pytest.approx(1.58)
    assert result.stderr == pytest.approx(0.3889587, abs=1e-7)
    assert result.low == pytest.approx(0.7001142, abs=1e-7)
    assert result.high == pytest.approx(2.4598858, abs=1e-7)
    assert result.p == pytest.approx(0.00283289, abs=1e-8)


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(-100, 100)), min_size=2, max_size=30))
def test_swapping_the_runs_changes_only_the_sign(pairs: list[tuple[float, float]]) -> None:
    a, b = zip(*pairs, strict=True)
    forward, other = paired_difference(a, b), paired_difference(b, a)
    assert forward.difference == -other.difference if forward.difference and other.difference else True
    assert forward.stderr == pytest.approx(other.stderr)
    assert forward.p == pytest.approx(other.p)


def test_pairing_sees_what_two_separate_errors_hide() -> None:
    hard = np.linspace(0, 1, 200)
    result = paired_difference(hard + 0.01 + 0.001 * np.sin(np.arange(200)), hard)
    alone = mean_stderr(hard).stderr
    assert alone is not None
    assert result.stderr is not None
    assert result.p is not None
    assert result.stderr < alone / 100
    assert result.p < 1e-6


def test_without_spread_p_is_0_for_a_difference_and_1_for_none() -> None:
    assert paired_difference([1, 1, 1], [0, 0, 0]).p == 0.0
    assert paired_difference([1, 1, 1], [1, 1, 1]).p == 1.0
    assert paired_difference([1], [0]) == paired_difference([3], [2])
    assert paired_difference([1], [0]).p is None
    assert paired_difference([], []).difference is None
    with pytest.raises(ValueError, match="pairs have the same samples"):
        paired_difference([1], [])


def test_clusters_take_the_degrees_of_freedom_of_a_comparison() -> None:
    a, b = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    plain, clustered = paired_difference(a, b), paired_difference(a, b, clusters=["x", "x", "y", "y", "z", "z"])
    assert plain.difference == clustered.difference
    assert plain.p is not None
    assert clustered.p is not None
    assert clustered.p > plain.p


def test_mcnemar_is_the_exact_binomial_test() -> None:
    # 2·P(X ≤ 2 | n = 12, ½) = 2·(1 + 12 + 66)/4096
    assert mcnemar(2, 10) == mcnemar(10, 2) == pytest.approx(158 / 4096, rel=1e-14)
    assert mcnemar(0, 1) == 1.0
    assert mcnemar(0, 0) == mcnemar(7, 7) == 1.0
    with pytest.raises(ValueError, match="discordant"):
        mcnemar(-1, 3)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_equals_the_sum_of_binomials(b: int, c: int) -> None:
    n, k = b + c, min(b, c)
    exact = min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n)
    assert mcnemar(b, c) == pytest.approx(exact, rel=1e-12)


def test_mcnemar_holds_for_large_counts() -> None:
    assert mcnemar(0, 5000) == 0.0
    # The normal approximation with continuity correction, to its own accuracy.
    b, c = 49_700, 50_300
    z = (c - b - 1) / math.sqrt(b + c)
    assert mcnemar(b, c) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-3)


@pytest.mark.parametrize("df", [1, 2, 5, 30, 300, 1999, 2000, 5000, 10**6])
@pytest.mark.parametrize("p", [0.75, 0.9, 0.975, 0.9995])
def test_the_tail_of_students_t_undoes_its_quantile(p: float, df: int) -> None:
    assert t_tail(t_quantile(p, df), df) == pytest.approx(2 * (1 - p), rel=1e-8)


@pytest.mark.parametrize(
    ("t", "df", "tail"),
    [
        (1.7, 40, 0.096895457623574607),
        (8.0, 500, 8.7296627938801911e-15),
        (11.14, 199, 1.0310014498864833e-22),
        (30.0, 1500, 2.7311078110667573e-155),
    ],
)
def test_a_small_tail_keeps_its_digits(t: float, df: int, tail: float) -> None:
    # The incomplete beta function of mpmath, with 40 digits.
    assert t_tail(t, df) == pytest.approx(tail, rel=1e-10)


def test_the_tail_falls_and_has_its_limits() -> None:
    assert t_tail(0.0, 3) == 1.0
    assert t_tail(math.inf, 3) == 0.0
    assert t_tail(1e200, 3) == 0.0
    assert t_tail(-2.0, 7) == t_tail(2.0, 7)
    tails = [t_tail(t / 4, 9) for t in range(80)]
    assert all(later < earlier for earlier, later in pairwise(tails))
    with pytest.raises(ValueError, match="df must be positive"):
        t_tail(1.0, 0)


def test_the_detectable_effect_is_millers() -> None:
    # (1.96 + 0.8416)·sd/√n with the normal quantiles; Student's hardly differ at this n.
    normal = 1.959964 + 0.841621
    assert minimum_detectable_effect(100_000, 0.5) == pytest.approx(normal * 0.5 / math.sqrt(100_000), rel=1e-4)
    small = minimum_detectable_effect(10, 0.5)
    assert small is not None
    assert small > normal * 0.5 / math.sqrt(10)
    assert minimum_detectable_effect(1, 0.5) is None


@given(st.floats(0.001, 1.0), st.floats(0.01, 1.0))
def test_required_samples_are_the_fewest_that_detect_the_effect(effect: float, sd: float) -> None:
    n = required_samples(effect, sd)
    enough, fewer = minimum_detectable_effect(n, sd), minimum_detectable_effect(n - 1, sd)
    assert enough is not None
    assert enough <= effect
    assert fewer is None or fewer > effect


def test_power_refuses_impossible_values() -> None:
    with pytest.raises(ValueError, match="standard deviation"):
        minimum_detectable_effect(10, -1.0)
    with pytest.raises(ValueError, match="alpha"):
        minimum_detectable_effect(10, 1.0, alpha=0)
    with pytest.raises(ValueError, match="an effect must be positive"):
        required_samples(0.0, 1.0)


def test_correlation_of_two_runs_reduces_the_spread_of_their_difference() -> None:
    assert difference_sd(0.5, 0.5, 1.0) == 0.0
    assert difference_sd(0.3, 0.4, 0.0) == pytest.approx(0.5)
    assert difference_sd(0.3, 0.4, -1.0) == pytest.approx(0.7)
    with pytest.raises(ValueError, match="correlation"):
        difference_sd(0.3, 0.4, 1.5)
