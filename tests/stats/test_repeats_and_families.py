"""Promises of run noise, of skewness, and of several tests at once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.stats.multiple import holm
from gage_eval.stats.repeats import expected_next, run_noise, skewness
from gage_eval.stats.special import chi_square_tail


def test_holm_adjusts_as_in_his_paper() -> None:
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(adjusted) == ["a", "b", "c", "d"]
    assert holm({"only": 0.2}) == {"only": 0.2}
    assert holm({}) == {}


@given(st.dictionaries(st.text(), st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_stays_between_the_raw_value_and_bonferronis(p: dict[str, float]) -> None:
    adjusted = holm(p)
    for name, value in p.items():
        assert value <= adjusted[name] <= min(1, value * len(p)) or adjusted[name] == pytest.approx(
            min(1, max(adjusted.values()))
        )
    ranked = sorted(p, key=lambda name: p[name])
    assert [adjusted[name] for name in ranked] == sorted(adjusted.values())


def test_the_chi_square_tail_agrees_with_published_quantiles() -> None:
    # Upper 5 % and 1 % points (Abramowitz & Stegun, table 26.8).
    for df, first, last in (
        (1, 3.84146, 6.63490),
        (2, 5.99146, 9.21034),
        (4, 9.48773, 13.2767),
        (9, 16.9190, 21.6660),
    ):
        assert chi_square_tail(first, df) == pytest.approx(0.05, abs=1e-6)
        assert chi_square_tail(last, df) == pytest.approx(0.01, abs=1e-6)
    assert chi_square_tail(0, 3) == 1
    with pytest.raises(ValueError, match="df must be positive"):
        chi_square_tail(1, 0)


def test_run_noise_is_what_the_rows_do_not_explain() -> None:
    rng = np.random.default_rng(5)
    rows = rng.random((2000, 1))
    quiet = np.stack([rng.random(500) < 0.5 for _ in range(400)]).astype(float)
    shaken = quiet + rng.normal(0, 0.05, (400, 1))
    for repeats, expected in ((quiet, 0.0), (shaken, 0.05**2)):
        noise = run_noise(repeats)
        assert noise is not None
        assert noise.variance == pytest.approx(expected, abs=4e-4)
    assert run_noise(shaken).p < 1e-6  # type: ignore[union-attr]
    assert run_noise(rows.T) is None
    assert run_noise(np.empty((3, 0))) is None


def test_the_test_of_repeats_finds_noise_as_often_as_its_level_says() -> None:
    rng = np.random.default_rng(11)
    noises = [run_noise((rng.random((5, 200)) < 0.5).astype(float)) for _ in range(2000)]
    share = sum(noise is not None and noise.p < 0.1 for noise in noises) / len(noises)
    assert share == pytest.approx(0.1, abs=0.03)


def test_rows_that_never_change_have_no_noise() -> None:
    noise = run_noise(np.ones((3, 10)))
    assert noise is not None
    assert (noise.variance, noise.p) == (0.0, 1.0)


def test_skewness_is_the_moment_coefficient() -> None:
    values = np.array([1.0, 1, 1, 1, 6])
    # m2 = 4, m3 = 12 → 12 / 8
    assert skewness(values) == pytest.approx(1.5)
    assert skewness(-values) == pytest.approx(-1.5)
    assert skewness(np.full(4, 0.1)) == 0.0
    assert skewness(np.array([])) == 0.0
    assert math.isfinite(skewness(np.array([1e-300, -1e-300])))


@pytest.mark.parametrize("shape", [(0.3, 0.3), (1.0, 1.0), (0.1, 0.05)])
def test_the_next_run_of_chosen_samples_is_predicted(shape: tuple[float, float]) -> None:
    rng = np.random.default_rng(5)
    rates = rng.beta(*shape, size=50_000)
    for repeats in (1, 3, 5):
        runs = (rng.random((repeats + 1, len(rates))) < rates).astype(np.float64)
        again = rng.random(len(rates)) < rates
        # The samples that the last run has lost: their own means say too much or too little.
        lost = runs[-1] < runs[:-1].mean(axis=0)
        assert expected_next(runs)[lost].mean() == pytest.approx(again[lost].mean(), abs=0.03)
    same = np.ones((2, 3))
    assert expected_next(same).tolist() == [1, 1, 1]


def test_rounding_is_no_noise() -> None:
    repeats = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 1], [1, 1, 0, 1, 1]], np.float64)
    noise = run_noise(repeats)
    assert noise is not None
    assert noise.variance == 0
