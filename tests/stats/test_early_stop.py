"""Promises of stopping early: the reference's limits, and the true mean at every look."""

from itertools import islice, pairwise, takewhile
from pathlib import Path

import numpy as np
import orjson
import pytest

from gage_eval.stats.early_stop import limits_at, limits_by_look, look_sizes


def test_limits_are_those_of_the_reference(shared: Path) -> None:
    file = shared / "vectors" / "judges" / "early_stop.jsonl"
    if not file.exists():
        pytest.skip(f"no {file}")
    cases = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert len(cases) >= 3
    for case in cases:
        values = case["input"]
        for look in case["expected"]:
            scores = values["scores"][: look["rows"]]
            limits = limits_at(scores, values["N"], values["half_width"], alpha=values["alpha"])
            assert limits == pytest.approx((look["low"], look["high"]), abs=2e-9)


def test_looks_grow_by_a_tenth() -> None:
    assert list(islice(look_sizes(), 6)) == [100, 110, 121, 133, 146, 161]


SHAPES = {
    "half": lambda rng: (rng.random(500) < 0.5).astype(float),
    "nearly all right": lambda rng: (rng.random(500) < 0.97).astype(float),
    "skewed": lambda rng: rng.beta(0.3, 3.0, 500),
    "clusters": lambda rng: np.repeat((rng.random(50) < 0.6).astype(float), 10),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_of_all_rows_is_inside_at_every_look(shape: str) -> None:
    rng = np.random.default_rng(35)
    rows = SHAPES[shape](rng)
    looks = [*takewhile(lambda size: size < len(rows), look_sizes()), len(rows)]
    draws, missed = 60, 0
    for _ in range(draws):
        *limits, last = limits_by_look(rng.permutation(rows), len(rows), looks, 0.05)
        missed += not all(low <= rows.mean() <= high for low, high in limits)
        assert last == pytest.approx((rows.mean(), rows.mean()))
    # 5 % of 60 are 3; six or more have a chance of 8 % even at the full level, and the draws are fixed.
    assert missed <= 5


def test_a_look_never_widens_and_the_last_one_knows_the_mean() -> None:
    rows = np.random.default_rng(1).random(300)
    limits = limits_by_look(rows, 300, [100, 150, 200, 300], 0.02)
    assert all(a.low <= b.low and b.high <= a.high for a, b in pairwise(limits))
    assert limits[-1] == pytest.approx((rows.mean(), rows.mean()))


def test_rows_without_a_score_widen_the_limits_by_what_they_could_be() -> None:
    rows = np.random.default_rng(2).random(200)
    missing = rows.copy()
    missing[:20] = np.nan
    low, high = limits_at(missing, 200, 0.02)
    assert (low, high) == pytest.approx((np.nansum(missing) / 200, (np.nansum(missing) + 20) / 200))


def test_scores_outside_the_scale_are_refused() -> None:
    with pytest.raises(ValueError, match="within 0 and 1"):
        limits_at([0.5, 1.5], 10, 0.02)
    with pytest.raises(ValueError, match="3 scores of 2 rows"):
        limits_at([0.0, 1.0, 1.0], 2, 0.02)
