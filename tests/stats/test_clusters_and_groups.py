"""Promises of weighted and clustered means, ratios and pooled tasks."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.stats import (
    clustered_stderr,
    clustered_wilson_interval,
    macro_freedom,
    macro_stderr,
    mean_stderr,
    pooled_mean,
    pooled_stderr,
    ratio_stderr,
    weighted_mean_stderr,
    wilson_interval,
)

VALUES = st.lists(st.floats(min_value=-1e3, max_value=1e3), min_size=2, max_size=40)


@given(VALUES)
def test_clusters_of_one_value_each_change_nothing(values: list[float]) -> None:
    plain = mean_stderr(values).stderr
    assert plain is not None
    assert clustered_stderr(values, range(len(values))) == pytest.approx(plain, rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(min_value=1, max_value=1e3), min_size=2, max_size=40), st.sampled_from([400, 700, 1000]))
def test_values_whose_squares_exceed_floats_have_a_mean_and_an_error(values: list[float], power: int) -> None:
    huge = [value * 2.0**power for value in values]
    weights, clusters = [1.0 + place for place in range(len(values))], [place // 2 for place in range(len(values))]
    for plain, scaled in (
        (mean_stderr(values), mean_stderr(huge)),
        (weighted_mean_stderr(values, weights), weighted_mean_stderr(huge, weights)),
        (ratio_stderr(values, weights), ratio_stderr(huge, weights)),
        ((None, clustered_stderr(values, clusters, weights)), (None, clustered_stderr(huge, clusters, weights))),
    ):
        for number, other in zip(plain, scaled, strict=True):
            assert other == (None if number is None else pytest.approx(number * 2.0**power, rel=1e-12))


@given(VALUES, st.integers(min_value=2, max_value=9))
def test_repeating_every_value_in_its_cluster_adds_no_certainty(values: list[float], times: int) -> None:
    clusters = [place for place in range(len(values)) for _ in range(times)]
    repeated = [value for value in values for _ in range(times)]
    plain = mean_stderr(values).stderr
    assert clustered_stderr(repeated, clusters) == pytest.approx(plain, rel=1e-9, abs=1e-12)


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_values_and_the_names_of_clusters_do_not_matter(values: list[float], rng: random.Random) -> None:
    clusters = [rng.randrange(4) for _ in values]
    order = list(range(len(values)))
    rng.shuffle(order)
    other = clustered_stderr([values[i] for i in order], [f"c{clusters[i]}" for i in order])
    assert clustered_stderr(values, clusters) == (None if other is None else pytest.approx(other, rel=1e-9, abs=1e-12))


def test_one_cluster_has_no_standard_error_and_a_missing_id_is_refused() -> None:
    assert clustered_stderr([0.0, 1.0], ["a", "a"]) is None
    assert clustered_wilson_interval(0.5, None, 2, 1) is None
    for missing in (None, math.nan):
        with pytest.raises(ValueError, match="cluster id is missing"):
            clustered_stderr([0.0, 1.0], ["a", missing])
    with pytest.raises(ValueError, match="2 values and 1 cluster ids"):
        clustered_stderr([0.0, 1.0], ["a"])


def test_clusters_that_agree_within_widen_wilsons_interval_and_never_narrow_it() -> None:
    values = [1.0] * 10 + [0.0] * 10
    together = clustered_stderr(values, [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5)
    wide = clustered_wilson_interval(0.5, together, 20, 4)
    apart = clustered_stderr(values, [0, 1, 2, 3] * 5)
    narrow = clustered_wilson_interval(0.5, apart, 20, 4)
    plain = wilson_interval(10, 20)
    assert wide is not None
    assert narrow is not None
    assert plain is not None
    assert wide.low < narrow.low <= plain.low < plain.high <= narrow.high < wide.high


@given(VALUES, st.floats(min_value=0.1, max_value=100))
def test_equal_weights_change_nothing(values: list[float], weight: float) -> None:
    mean, stderr = weighted_mean_stderr(values, [weight] * len(values))
    plain = mean_stderr(values)
    assert mean == pytest.approx(plain.mean, rel=1e-9, abs=1e-9)
    assert stderr == pytest.approx(plain.stderr, rel=1e-6, abs=1e-9)


def test_values_without_weight_do_not_count_and_bad_weights_are_refused() -> None:
    assert weighted_mean_stderr([1.0, 5.0, 100.0], [3.0, 1.0, 0.0]).mean == 2.0
    assert weighted_mean_stderr([1.0, 2.0], [0.0, 0.0]) == (None, None)
    assert weighted_mean_stderr([], []) == (None, None)
    assert weighted_mean_stderr([4.0], [2.0]) == (4.0, None)
    assert weighted_mean_stderr([4.0, 9.0], [2.0, 0.0]) == (4.0, None)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="weights are finite and not negative"):
            weighted_mean_stderr([1.0, 2.0], [1.0, bad])
    with pytest.raises(ValueError, match="2 values and 1 weights"):
        weighted_mean_stderr([1.0, 2.0], [1.0])


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(0.5, 10)), min_size=2, max_size=30))
def test_a_ratio_of_sums_is_the_mean_of_ratios_weighted_with_the_denominators(pairs: list[tuple[float, float]]) -> None:
    tops, bottoms = zip(*pairs, strict=True)
    ratio, weighted = ratio_stderr(tops, bottoms), weighted_mean_stderr([a / b for a, b in pairs], bottoms)
    assert ratio.mean == pytest.approx(weighted.mean, rel=1e-9, abs=1e-9)
    assert ratio.stderr == pytest.approx(weighted.stderr, rel=1e-6, abs=1e-9)


def test_a_ratio_over_nothing_is_null() -> None:
    assert ratio_stderr([], []) == (None, None)
    assert ratio_stderr([1.0], [0.0]) == (None, None)
    assert ratio_stderr([1.0], [4.0]) == (0.25, None)


def test_one_task_pools_to_itself() -> None:
    assert pooled_mean([50], [0.3]) == pytest.approx(0.3)
    assert pooled_stderr([50], [0.02]) == pytest.approx(0.02, rel=1e-12)
    assert macro_stderr([0.02]) == 0.02
    assert macro_freedom([50], [0.02]) == pytest.approx(49)


def test_pooling_is_null_if_something_is_unknown() -> None:
    assert pooled_mean([], []) is None
    assert pooled_stderr([1, 1], [None, None]) is None
    assert pooled_stderr([10, 10], [0.1, None]) is None
    assert macro_stderr([0.1, None]) is None
    assert macro_stderr([]) is None
    assert macro_freedom([10, 10], [0.0, 0.0]) is None
    assert macro_freedom([10, 1], [0.1, None]) is None


def test_a_task_of_one_sample_adds_its_sample_and_no_spread() -> None:
    with_one = pooled_stderr([10, 1], [0.1, None])
    alone = pooled_stderr([10], [0.1])
    assert with_one is not None
    assert alone is not None
    # The same variance within the tasks, over eleven samples in place of ten.
    assert with_one == pytest.approx(alone * math.sqrt(10 / 11), rel=1e-12)
    with pytest.raises(ValueError, match="sizes of 1 tasks"):
        pooled_stderr([1], [])


@given(st.lists(st.tuples(st.integers(2, 500), st.floats(1e-6, 1.0)), min_size=1, max_size=8))
def test_macro_degrees_of_freedom_lie_between_the_smallest_task_and_all_of_them(tasks: list[tuple[int, float]]) -> None:
    sizes, stderrs = zip(*tasks, strict=True)
    freedom = macro_freedom(sizes, stderrs)
    assert freedom is not None
    assert min(sizes) - 1 - 1e-9 <= freedom <= sum(sizes) - len(sizes) + 1e-6


def test_a_value_of_weight_zero_does_not_count() -> None:
    values, weights, clusters = [1.0, 4.0, 6.0, 100.0, 7.0], [1.0, 2.0, 1.0, 0.0, 0.0], ["a", "b", "b", "c", "a"]
    assert weighted_mean_stderr(values, weights) == weighted_mean_stderr(values[:3], weights[:3])
    assert clustered_stderr(values, clusters, weights) == clustered_stderr(values[:3], clusters[:3], weights[:3])
