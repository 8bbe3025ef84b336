"""Promises of pass@k, quantiles, bootstraps and corpus numbers."""

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.stats import (
    at_least_k,
    bits_per_byte,
    bootstrap_stderr,
    bootstrap_sums,
    f1,
    majority_value,
    matthews_correlation,
    modal_value,
    pass_at_k,
    pass_hat_k,
    perplexity,
    quantile,
    quantile_interval,
    ratio_stderr,
    weighted_perplexity,
)
from gage_eval.stats.special import binomial_cdf

COUNTS = st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@given(COUNTS)
def test_pass_at_k_and_pass_hat_k_count_all_draws(counts: tuple[int, int, int]) -> None:
    n, c, k = counts
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws), abs=1e-12)
    assert pass_hat_k(n, c, k) == pytest.approx(sum(all(draw) for draw in draws) / len(draws), abs=1e-12)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_of_one_is_the_share_and_both_stay_within_0_and_1(counts: tuple[int, int, int]) -> None:
    n, c, k = counts
    some, every = pass_at_k(n, c, min(k, 1000)), pass_hat_k(n, c, min(k, 1000))
    assert some is not None
    assert every is not None
    assert 0 <= every <= some + 1e-12
    assert some <= 1
    assert pass_at_k(n, c, 1) == pytest.approx(c / n, rel=1e-12)


def test_rare_successes_keep_their_digits() -> None:
    # 1 − C(n−1, k)/C(n, k) = k/n exactly, where 1 − (1 − tiny) would lose the digits.
    assert pass_at_k(10**9, 1, 3) == pytest.approx(3e-9, rel=1e-12)


def test_more_draws_than_answers_give_null() -> None:
    assert pass_at_k(3, 3, 4) is None
    assert pass_hat_k(3, 3, 4) is None
    assert pass_at_k(0, 0, 1) is None
    assert at_least_k(0, 0, 1) is None
    for n, c, k in ((3, 4, 1), (3, -1, 1), (3, 1, 0)):
        with pytest.raises(ValueError):
            pass_at_k(n, c, k)


def test_votes() -> None:
    assert majority_value([1.0, 0.0, 1.0]) == 1.0
    assert majority_value([1.0, 0.0]) is None
    assert majority_value([]) is None
    assert modal_value([0.5, 1.0, 1.0, 0.5]) == 0.5
    assert modal_value([]) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0, 1))
def test_quantiles_lie_within_the_values_and_rise(values: list[float], p: float) -> None:
    array = np.array(values)
    value = quantile(array, p)
    assert value is not None
    assert value == pytest.approx(float(np.quantile(array, p)), rel=1e-9, abs=1e-6)
    assert min(values) <= value <= max(values)


def test_quantiles_of_nothing_are_null() -> None:
    assert quantile(np.empty(0), 0.5) is None
    assert quantile_interval(np.empty(0), 0.5) is None
    with pytest.raises(ValueError, match="p must lie"):
        quantile(np.ones(1), 1.5)


# David & Nagaraja's table for the median: n = 10 → (2, 9), n = 20 → (6, 15), n = 100 → (40, 61).
@pytest.mark.parametrize(("n", "low", "high"), [(10, 2, 9), (20, 6, 15), (100, 40, 61)])
def test_the_interval_of_a_median_is_between_the_published_order_statistics(n: int, low: int, high: int) -> None:
    assert quantile_interval(np.arange(1.0, n + 1), 0.5) == (low, high)


def test_too_few_values_bound_no_quantile() -> None:
    assert quantile_interval(np.arange(5.0), 0.5) is None
    assert quantile_interval(np.arange(100.0), 0.99) is None


@given(st.integers(1, 400), st.floats(0.02, 0.98))
def test_quantile_intervals_cover_what_they_promise(n: int, p: float) -> None:
    interval = quantile_interval(np.arange(1.0, n + 1), p)
    if interval is not None:
        covered = binomial_cdf(int(interval.high) - 1, n, p) - binomial_cdf(int(interval.low) - 1, n, p)
        assert covered >= 0.95 - 1e-9


@given(st.integers(1, 200), st.floats(0, 1))
def test_the_binomial_distribution_is_the_sum_of_its_terms(n: int, p: float) -> None:
    k = n // 3
    terms = math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))
    assert binomial_cdf(k, n, p) == pytest.approx(terms, abs=1e-10)


def _ratio(sums: npt.NDArray[np.float64]) -> float:
    return float(sums[0] / sums[1])


def test_the_bootstrap_of_a_ratio_agrees_with_its_formula_and_repeats() -> None:
    generator = np.random.RandomState(7)
    terms = np.stack([generator.poisson(3, 800), generator.poisson(9, 800) + 1], axis=1).astype(float)
    result = bootstrap_sums(terms, _ratio)
    expected = ratio_stderr(terms[:, 0], terms[:, 1]).stderr
    assert result.stderr == pytest.approx(expected, rel=0.1)
    assert result == bootstrap_sums(terms, _ratio)
    assert result != bootstrap_sums(terms, _ratio, seed=2)
    assert result.interval is not None
    assert result.interval.low < _ratio(terms.sum(axis=0)) < result.interval.high


def test_the_bootstrap_of_many_rows_takes_groups_of_them_and_keeps_the_error() -> None:
    generator = np.random.RandomState(7)
    terms = np.stack([generator.poisson(3, 60_000), generator.poisson(9, 60_000) + 1], axis=1).astype(float)
    result = bootstrap_sums(terms, _ratio, draws=400)
    assert result.stderr == pytest.approx(ratio_stderr(terms[:, 0], terms[:, 1]).stderr, rel=0.15)


def test_what_cannot_be_resampled_has_no_error() -> None:
    assert bootstrap_sums(np.ones((1, 2)), _ratio) == (None, None)
    with np.errstate(all="ignore"):
        assert bootstrap_sums(np.zeros((5, 2)), _ratio) == (None, None)
    assert bootstrap_stderr(max, [1.0]) is None
    assert bootstrap_stderr(max, [1.0, 2.0], iterations=1) is None


def test_corpus_numbers_are_null_for_nothing_and_never_zero() -> None:
    assert perplexity([]) is None
    assert weighted_perplexity([-1.0], [0]) is None
    assert bits_per_byte([], []) is None
    assert f1([]) is None
    assert matthews_correlation([]) is None
    assert weighted_perplexity([-1e9], [1.0]) == math.inf
    with pytest.raises(ValueError, match="log-likelihoods"):
        weighted_perplexity([-1.0], [1.0, 2.0])


def test_a_uniform_model_has_its_vocabulary_as_perplexity() -> None:
    assert perplexity([math.log(1 / 50)] * 7) == pytest.approx(50)
    assert bits_per_byte([math.log(1 / 256) * 3], [3]) == pytest.approx(8)


def test_agreement_is_1_if_perfect_and_0_if_undefined() -> None:
    assert f1([(True, True), (False, False)]) == 1.0
    assert matthews_correlation([(True, True), (False, False)]) == 1.0
    assert matthews_correlation([(True, False), (False, True)]) == -1.0
    assert f1([(False, False)]) == 0.0
    assert matthews_correlation([(True, True)]) == 0.0
