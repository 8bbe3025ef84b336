"""Promises of the tests and intervals of right and wrong answers on the same samples."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.stats import mcnemar_mid_p, tango_interval

Z95 = NormalDist().inv_cdf(0.975)


@st.composite
def discordant(draw: st.DrawFn) -> tuple[int, int, int]:
    b, c = draw(st.integers(0, 60)), draw(st.integers(0, 60))
    return b, c, draw(st.integers(max(1, b + c), 2000))


def test_the_mid_p_value_is_half_of_the_observed_and_all_beyond() -> None:
    # P(X > 10) + P(X = 10)/2 of 12 trials: (12 + 1 + 66/2) / 4096
    assert mcnemar_mid_p(10, 2) == pytest.approx(46 / 4096, rel=1e-13)
    assert mcnemar_mid_p(2, 10) == pytest.approx(1 - 46 / 4096, rel=1e-13)
    assert mcnemar_mid_p(0, 0) == mcnemar_mid_p(7, 7) == 0.5


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_mid_p_values_of_both_directions_add_up_to_one(b: int, c: int) -> None:
    assert mcnemar_mid_p(b, c) + mcnemar_mid_p(c, b) == pytest.approx(1)


@given(discordant())
def test_tangos_bounds_are_the_differences_that_the_score_test_just_does_not_reject(
    pairs: tuple[int, int, int],
) -> None:
    b, c, n = pairs
    interval = tango_interval(b, c, n, z=Z95)
    assert interval is not None
    assert -1 <= interval.low <= (b - c) / n <= interval.high <= 1
    for bound, away in ((interval.low, -1e-4), (interval.high, 1e-4)):
        if abs(bound) < 1 - 1e-3:
            assert score_statistic(b, c, n, bound - away) <= Z95 + 1e-3
            assert score_statistic(b, c, n, bound + away) >= Z95 - 1e-3


def score_statistic(b: int, c: int, n: int, delta: float) -> float:
    """|z| of the score test by brute force: the share q that makes the counts most likely is searched on a grid."""
    low, high = max(0.0, -delta), (1 - delta) / 2
    q = np.linspace(low, high, 20_001)
    with np.errstate(divide="ignore"):
        likelihood = sum(
            (count * np.log(np.maximum(share, 1e-300)) if count else 0.0 * q)
            for count, share in ((b, q + delta), (c, q), (n - b - c, 1 - 2 * q - delta))
        )
    best = float(q[int(np.argmax(likelihood))])
    variance = n * (2 * best + delta * (1 - delta))
    return math.inf if variance <= 0 else abs(b - c - n * delta) / math.sqrt(variance)


def test_the_interval_has_a_width_without_discordant_pairs() -> None:
    for n in (2, 50, 1000):
        interval = tango_interval(0, 0, n, z=Z95)
        assert interval is not None
        assert interval.high == -interval.low == pytest.approx(Z95**2 / (n + Z95**2), rel=1e-9)
    assert tango_interval(0, 0, 0, z=Z95) is None


@pytest.mark.parametrize(("b", "c", "n"), [(-1, 0, 3), (2, 2, 3)])
def test_impossible_counts_are_refused(b: int, c: int, n: int) -> None:
    with pytest.raises(ValueError, match="discordant pairs"):
        tango_interval(b, c, n, z=Z95)
