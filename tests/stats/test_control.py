"""Promises of control variates: the mean of all rows is inside, and an earlier run that is alike narrows."""

import numpy as np
import numpy.typing as npt
import pytest

from bench.fewer_rows import SHAPES, Shape, share_covered
from gage_eval.stats import corrected_mean
from gage_eval.stats.control import controlled_mean

Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.text)
def test_the_mean_of_all_rows_is_inside(shape: Shape) -> None:
    # 94 % less three standard errors of 400 draws; docs/fewer-rows-simulations.md has all draws.
    assert share_covered(shape, draws=400, seed=35) >= 0.905


def _alike(correlated: float, rng: np.random.Generator) -> Rows:
    base = (rng.random(1000) < 0.6).astype(float)
    now = np.where(rng.random(1000) < correlated, base, rng.random(1000) < 0.6).astype(float)
    return now, base


def test_an_earlier_run_that_is_alike_is_worth_rows() -> None:
    rng = np.random.default_rng(1)
    widths, gains = [], []
    for correlated in (0.0, 0.9):
        now, base = _alike(correlated, rng)
        known = controlled_mean(now[:300].tolist(), base[:300].tolist(), base[300:].tolist(), scale=(0, 1))
        assert known is not None
        assert known.interval is not None
        assert known.gain is not None
        widths.append(known.interval.high - known.interval.low)
        gains.append(known.gain)
    assert widths[1] < 0.6 * widths[0]
    assert gains[0] < 1.1 < 3 < gains[1]


def test_luck_with_the_rows_is_corrected() -> None:
    base = [1.0] * 500 + [0.0] * 500
    # All of the rows that were asked are among those that the earlier run had right, but for twenty.
    scores = [1.0] * 280 + [0.0] * 20
    known = controlled_mean(scores, scores, [1.0] * 220 + [0.0] * 480, scale=(0, 1))
    assert known is not None
    assert known.estimate == pytest.approx(np.mean(base))


def test_the_finite_set_has_the_estimate_of_the_population_and_a_narrower_interval() -> None:
    rng = np.random.default_rng(2)
    base = rng.beta(2, 1, 600)
    now = np.clip(base + rng.normal(0, 0.2, 600), 0, 1)
    parts = now[:250].tolist(), base[:250].tolist(), base[250:].tolist()
    population, finite = (corrected_mean(*parts, scale=(0, 1), finite=finite) for finite in (False, True))
    assert population is not None
    assert finite is not None
    assert finite.estimate == pytest.approx(population.estimate)
    assert population.interval.low < finite.interval.low < finite.interval.high < population.interval.high


def test_fewer_than_200_rows_or_40_clusters_say_nothing() -> None:
    rows = [0.0, 1.0] * 100
    assert controlled_mean(rows[:199], rows[:199], rows, scale=(0, 1)) is None
    clusters = [row // 6 for row in range(200)]
    assert len(set(clusters)) == 34
    assert controlled_mean(rows, rows, rows, scale=(0, 1), clusters=clusters, rest_clusters=range(200)) is None


def test_a_baseline_of_other_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="2 scores, and 1 of the baseline"):
        controlled_mean([0, 1], [0], [], scale=(0, 1))
