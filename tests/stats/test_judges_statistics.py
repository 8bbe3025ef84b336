"""Promises of the statistics about judges: the references' numbers, and None where nothing is known."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from gage_eval.stats import (
    Corrected,
    Interval,
    Stratum,
    both_orders,
    bradley_terry,
    cohen_kappa,
    confusion,
    corrected_clusters,
    corrected_difference,
    corrected_mean,
    corrected_share,
    krippendorff_alpha,
    labels_to_decide,
    rating_intervals,
)


def _vectors(shared: Path, name: str) -> Iterator[tuple[Any, Any]]:
    file = shared / "vectors" / "judges" / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"no {file}")
    for line in file.read_bytes().splitlines():
        case = orjson.loads(line)
        yield case["input"], case["expected"]


def test_corrected_means_are_those_of_ppi_plus_plus(shared: Path) -> None:
    for given, expected in _vectors(shared, "ppi_mean"):
        found = corrected_mean(given["y"], given["judge_labelled"], given["judge_unlabelled"])
        assert found is not None
        assert found.estimate == pytest.approx(expected["estimate"], abs=1e-9)
        assert found.tuning == pytest.approx(expected["lam"], abs=1e-9)
        assert found.interval == pytest.approx((expected["low_t"], expected["high_t"]), abs=1e-9)


def test_corrected_shares_are_those_of_the_vectors(shared: Path) -> None:
    for given, expected in _vectors(shared, "strata_mover"):
        strata = [Stratum(*counts) for counts in zip(given["rows"], given["labelled"], given["right"], strict=True)]
        for kind, finite in (("population", False), ("finite", True)):
            found = corrected_share(strata, finite=finite)
            assert found is not None
            assert found.estimate == pytest.approx(expected[kind]["estimate"], abs=1e-9)
            assert found.interval == pytest.approx((expected[kind]["low"], expected[kind]["high"]), abs=1e-9)


def test_alpha_is_that_of_the_reference_with_missing_ratings(shared: Path) -> None:
    for given, expected in _vectors(shared, "krippendorff"):
        for level, alpha in expected.items():
            assert krippendorff_alpha(given["units"], level) == pytest.approx(alpha, abs=1e-9)


def test_both_orders_are_counted_as_defined(shared: Path) -> None:
    for given, expected in _vectors(shared, "swap"):
        found = both_orders(given["first"], given["second"])
        assert found is not None
        shown = (found.consistent, found.position_bias, found.win_rate)
        assert shown == pytest.approx((expected["consistent"], expected["position_bias"], expected["mean"]), abs=1e-9)


def test_ratings_are_those_of_the_references_with_ties_and_without(shared: Path) -> None:
    for given, expected in _vectors(shared, "bradley_terry"):
        games = [tuple(game) for game in given["games"]]
        decided = [game for game in games if game[2] != 0.5]
        # choix stops about 2e-7 before the optimum, where there are no ties and both fits must agree.
        assert bradley_terry(games, given["anchor"]).ratings == pytest.approx(expected["ties_half"], abs=1e-7)
        without = bradley_terry(decided, given["anchor"]).ratings
        assert without == pytest.approx(expected["without_ties"], abs=1e-6)
        if "davidson" in expected:
            found = bradley_terry(games, given["anchor"], model_ties=True)
            assert found.ratings == pytest.approx(expected["davidson"], abs=1e-7)
            assert found.ties == pytest.approx(expected["nu"], abs=1e-7)


def test_a_model_that_never_lost_has_no_rating_and_the_others_keep_theirs() -> None:
    games = [("a", "b", 1.0), ("b", "a", 1.0), ("best", "a", 1.0), ("best", "b", 1.0), ("a", "worst", 1.0)]
    ratings = bradley_terry([*games, ("x", "y", 0.5)], "a").ratings
    assert ratings == {"a": 0.0, "b": pytest.approx(0.0), "best": math.inf, "worst": -math.inf}


def test_intervals_of_ratings_count_prompts_not_games() -> None:
    prompts = [[("a", "b", float(index % 3 != 0))] for index in range(60)]
    (once, repeated) = (rating_intervals(games, "a")["b"] for games in (prompts, [game * 4 for game in prompts]))
    assert once == pytest.approx(repeated, abs=1e-9)
    assert once.low < -math.log(2) < once.high


def test_what_cannot_be_known_is_none() -> None:
    assert cohen_kappa([1, 1], [1, 1]) is None
    assert krippendorff_alpha([[1, 1], [1, 1]], "nominal") is None
    assert krippendorff_alpha([[1, None], [0]], "nominal") is None
    assert both_orders([], []) is None
    assert corrected_mean([], [], [1.0]) is None
    assert corrected_share([Stratum(10, 5, 5), Stratum(3, 0, 0)]) is None
    few = corrected_mean([1.0, 0.0], [1.0, 0.0], [1.0], scale=(0, 1))
    assert few is not None
    assert few.interval is None
    names = list(range(39))
    clustered = corrected_clusters([1.0] * 39, [1.0] * 39, names, [0.5], ["other"], scale=(0, 1))
    assert clustered is not None
    assert clustered.interval is None


def test_agreement_of_two_raters() -> None:
    first, second = [1, 1, 0, 0], [1, 0, 0, 0]
    assert confusion(first, second) == {(0, 0): 2, (1, 0): 1, (1, 1): 1}
    assert cohen_kappa(first, second) == pytest.approx(0.5)


def test_a_biased_judge_is_corrected_and_the_interval_holds_the_truth() -> None:
    """200 data sets each; bench/judges.py makes the table of 2,000."""
    random = np.random.RandomState(7)
    groups = np.repeat(np.arange(120), 5).tolist()
    held, narrower = Counter[str](), 0
    for _ in range(200):
        means = (6.0, 5.5)
        labels = [np.round(np.clip(random.normal(mean, 2, 600), 1, 10)) for mean in means]
        verdicts = [np.clip(label + 0.7 + random.normal(0, 1, 600), 1, 10) for label in labels]
        y, z = ([float(value) for value in label] for label in labels)
        f, g = ([float(value) for value in verdict] for verdict in verdicts)
        shifted = [min(10.0, max(1.0, a + b)) for a, b in zip(y, np.repeat(random.normal(0, 1, 120), 5), strict=True)]
        one = _interval(corrected_mean(y[:60], f[:60], f[60:], scale=(1, 10)))
        alone = _interval(corrected_mean(y[:60], f[:60], [], scale=(1, 10)))
        both = _interval(corrected_difference((y[:60], z[:60]), (f[:60], g[:60]), (f[60:], g[60:]), scale=(1, 10)))
        of_judge = [value + 0.7 for value in shifted]
        clustered = corrected_clusters(
            shifted[:300], of_judge[:300], groups[:300], of_judge[300:], groups[300:], scale=(1, 10)
        )
        cluster = _interval(clustered)
        held["mean"] += one.low <= 5.985 <= one.high
        held["difference"] += both.low <= 0.49 <= both.high
        held["clusters"] += cluster.low <= 5.97 <= cluster.high
        narrower += one.high - one.low < alone.high - alone.low
    assert min(held.values()) >= 180
    assert narrower == 200


def test_labels_that_would_decide_do_decide() -> None:
    random = np.random.RandomState(5)
    truth = random.normal(0.12, 1, 2000)
    judged = truth + random.normal(0.3, 1.0, 2000)

    def with_labels(n: int) -> tuple[list[float], list[float], list[float]]:
        return truth[:n].tolist(), judged[:n].tolist(), judged[n:].tolist()

    needed = labels_to_decide(*with_labels(100))
    assert needed is not None
    assert needed > 50
    interval = _interval(corrected_mean(*with_labels(int(1.3 * needed))))
    assert interval.low > 0
    # The closer the judge, the fewer labels; a difference that the rows cannot show is not shown by labels.
    exact = labels_to_decide(truth[:100].tolist(), truth[:100].tolist(), truth[100:].tolist())
    assert exact == 50
    shift = float(truth.mean()) - 0.001
    small = [(part - shift).tolist() for part in (truth[:100], judged[:100], judged[100:])]
    assert labels_to_decide(small[0], small[1], small[2][:50]) is None
    assert labels_to_decide([1, 1], [1, 1], [1]) is None


def _interval(corrected: Corrected | None) -> Interval:
    assert corrected is not None
    assert corrected.interval is not None
    return corrected.interval
