"""Promises of the statistics: published values, null where nothing is known, the same bits in every order."""

import math
import random
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.stats import mean_stderr, reduce_replicates, t_interval, t_quantile, wilson_interval

FINITE = st.floats(min_value=-1e6, max_value=1e6)


# Closed forms: df = 1 is tan, df = 2 algebraic; the others are the tables' values to their last digit.
@pytest.mark.parametrize(
    ("df", "expected"),
    [
        (1, math.tan(math.pi * 0.475)),
        (2, 0.95 * math.sqrt(2 / (1 - 0.95**2))),
        (3, 3.182446305284263),
        (4, 2.776445105198),
        (10, 2.228138851965),
        (30, 2.042272456301),
        (100, 1.983971518523),
        (1000, 1.962339080818),
    ],
)
def test_quantiles_of_students_t_are_the_published_ones(df: int, expected: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("p", [0.6, 0.9, 0.975, 0.995, 0.9995])
def test_quantiles_of_even_and_odd_degrees_solve_their_closed_forms(p: float) -> None:
    t = t_quantile(p, 4)
    u = t / math.sqrt(4 + t * t)
    assert 0.5 + u * (1 + (1 - u * u) / 2) / 2 == pytest.approx(p, abs=1e-13)
    t = t_quantile(p, 5)
    angle = math.atan(t / math.sqrt(5))
    area = angle + math.sin(angle) * (math.cos(angle) + 2 * math.cos(angle) ** 3 / 3)
    assert 0.5 + area / math.pi == pytest.approx(p, abs=1e-13)


def test_the_expansion_for_many_degrees_meets_the_exact_quantile() -> None:
    assert t_quantile(0.975, 1999.999) == pytest.approx(t_quantile(0.975, 2000), rel=1e-9)
    assert t_quantile(0.975, 10**12) == pytest.approx(1.959963984540054, rel=1e-11)


@given(st.floats(min_value=0.01, max_value=0.99), st.integers(min_value=1, max_value=5000))
def test_quantiles_are_antisymmetric_and_never_nearer_than_the_normal_ones(p: float, df: int) -> None:
    t = t_quantile(p, df)
    assert t == pytest.approx(-t_quantile(1 - p, df), rel=1e-9, abs=1e-12)
    assert abs(t) >= abs(t_quantile(p, 10**9)) - 1e-9


@pytest.mark.parametrize(("p", "df"), [(0.0, 5), (1.0, 5), (-1, 5), (0.5, 0), (0.9, -2)])
def test_a_quantile_outside_its_domain_is_refused(p: float, df: int) -> None:
    with pytest.raises(ValueError, match="must"):
        t_quantile(p, df)


def test_mean_and_standard_error_are_null_where_nothing_is_known() -> None:
    assert mean_stderr([]) == (None, None)
    assert mean_stderr([3.0]) == (3.0, None)
    assert mean_stderr([1.0, 1.0]) == (1.0, 0.0)


def test_standard_error_divides_by_n_minus_one() -> None:
    mean, stderr = mean_stderr([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    assert stderr == pytest.approx(math.sqrt(5 / 3 / 4), rel=1e-15)


@given(st.lists(FINITE, min_size=2, max_size=50), st.randoms(use_true_random=False))
def test_the_same_values_give_the_same_bits_in_every_order(values: list[float], rng: random.Random) -> None:
    shuffled = values[:]
    rng.shuffle(shuffled)
    assert mean_stderr(values) == mean_stderr(np.array(shuffled))


# Newcombe (1998), table I, method 3.
@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_the_published_one(k: int, n: int, low: float, high: float) -> None:
    interval = wilson_interval(k, n)
    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@given(st.integers(min_value=1, max_value=10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_holds_the_share_and_stays_within_0_and_1(pair: tuple[int, int]) -> None:
    interval = wilson_interval(*pair)
    assert interval is not None
    assert 0 <= interval.low <= pair[0] / pair[1] <= interval.high <= 1
    mirrored = wilson_interval(pair[1] - pair[0], pair[1])
    assert mirrored is not None
    assert interval.low == pytest.approx(1 - mirrored.high, abs=1e-12)


def test_intervals_are_null_where_there_is_none() -> None:
    assert wilson_interval(0, 0) is None
    assert t_interval(1.0, None, 0) is None
    assert t_interval(1.0, 0.5, 0) is None
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(3, 2)


def test_students_interval_is_symmetric_about_the_mean() -> None:
    interval = t_interval(10.0, 2.0, 9)
    assert interval is not None
    assert interval.high - 10 == pytest.approx(2.0 * 2.262157162798205, rel=1e-9)
    assert 10 - interval.low == pytest.approx(interval.high - 10, rel=1e-12)


def test_replicates_are_reduced_to_a_mean_for_each_sample_in_order() -> None:
    rows, values = np.array([5, 2, 5, 9]), np.array([1.0, 0.0, 0.0, 0.5])
    assert reduce_replicates(rows, values).tolist() == [0.0, 0.5, 0.5]
    assert reduce_replicates(np.array([3, 1]), np.array([0.1, 0.2])).tolist() == [0.2, 0.1]
    assert reduce_replicates(np.empty(0, np.int64), np.empty(0)).tolist() == []


def test_means_and_standard_errors_are_those_of_the_harness(shared: Path) -> None:
    with (shared / "vectors" / "lm_eval_stats.jsonl").open("rb") as lines:
        rows = [row for row in map(orjson.loads, lines) if row["group"] == "mean_stderr"]
    assert len(rows) == 44
    for row in rows:
        mean, stderr = mean_stderr(row["values"])
        assert mean == pytest.approx(row["expected"]["mean"], abs=1e-9), row["id"]
        expected = row["expected"]["mean_stderr"]
        assert stderr is None if expected is None else stderr == pytest.approx(expected, abs=1e-9), row["id"]
