"""The distance of two distributions whose likeliest tokens are known is never more than the true one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.stats.divergence import kl_lower_bound


@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.floats(0, 4), st.floats(0, 3), st.integers(1, 20))
def test_it_is_a_lower_bound_of_the_divergence(seed: int, size: int, spread: float, noise: float, top: int) -> None:
    chance = np.random.default_rng(seed)
    scores = chance.normal(0, spread, size)
    p, q = (np.exp(x - x.max()) / np.exp(x - x.max()).sum() for x in (scores, scores + chance.normal(0, noise, size)))
    likeliest = [{f"t{i}": math.log(x[i]) for i in np.argsort(-x)[:top]} for x in (p, q)]
    assert 0 <= kl_lower_bound(*likeliest) <= float(np.sum(p * np.log(p / q))) + 1e-9


def test_it_is_the_divergence_where_all_tokens_are_known() -> None:
    p, q = {"a": math.log(0.5), "b": math.log(0.5)}, {"a": math.log(0.9), "b": math.log(0.1)}
    assert kl_lower_bound(p, q) == pytest.approx(0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1))
    assert kl_lower_bound(p, p) == 0


def test_distributions_without_a_token_in_common_are_far_apart() -> None:
    assert kl_lower_bound({"a": -0.01}, {"b": -0.01}) > 4


@pytest.mark.parametrize("value", [-9999.0, 1e8, 0.0, -1e9])
def test_odd_log_probabilities_give_a_number(value: float) -> None:
    assert 0 <= kl_lower_bound({"a": value, "b": -1.0}, {"a": -1.0, "b": value}) < 20
