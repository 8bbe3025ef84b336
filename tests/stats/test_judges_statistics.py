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
    length_controlled_win_rate,
    rating_intervals,
    style_difference,
)


def _vectors(shared: Path, name: str) -> Iterator[tuple[Any, Any]]:
    file = shared / "vectors" / "judges" / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"no {file}")
    for line in file.read_bytes().splitlines():
        case = orjson.loads(line)
        yield case["input"], case["expected"]


def test_corrected_means_are_those_of_ppi_plus_plus(shared: Path) -> None:
    for vector, expected in _vectors(shared, "ppi_mean"):
        result = corrected_mean(vector["y"], vector["judge_labelled"], vector["judge_unlabelled"])
        assert result is not None
        assert result.estimate == pytest.approx(expected["estimate"], abs=1e-9)
        assert result.tuning == pytest.approx(expected["lam"], abs=1e-9)
        assert result.interval == pytest.approx((expected["low_t"], expected["high_t"]), abs=1e-9)


def test_corrected_shares_are_those_of_the_vectors(shared: Path) -> None:
    for vector, expected in _vectors(shared, "strata_mover"):
        strata = [Stratum(*counts) for counts in zip(vector["rows"], vector["labelled"], vector["right"], strict=True)]
        for kind, finite in (("population", False), ("finite", True)):
            result = corrected_share(strata, finite=finite)
            assert result is not None
            assert result.estimate == pytest.approx(expected[kind]["estimate"], abs=1e-9)
            assert result.interval == pytest.approx((expected[kind]["low"], expected[kind]["high"]), abs=1e-9)


def test_alpha_is_that_of_the_reference_with_missing_ratings(shared: Path) -> None:
    for vector, expected in _vectors(shared, "krippendorff"):
        for level, alpha in expected.items():
            assert krippendorff_alpha(vector["units"], level) == pytest.approx(alpha, abs=1e-9)


def test_both_orders_are_counted_as_defined(shared: Path) -> None:
    for vector, expected in _vectors(shared, "swap"):
        result = both_orders(vector["first"], vector["second"])
        assert result is not None
        shown = (result.consistent, result.position_bias, result.win_rate)
        assert shown == pytest.approx((expected["consistent"], expected["position_bias"], expected["mean"]), abs=1e-9)


def test_ratings_are_those_of_the_references_with_ties_and_without(shared: Path) -> None:
    for vector, expected in _vectors(shared, "bradley_terry"):
        games = [tuple(game) for game in vector["games"]]
        decided = [game for game in games if game[2] != 0.5]
        # choix stops about 2e-7 before the optimum, where there are no ties and both fits must agree.
        assert bradley_terry(games, vector["anchor"]).ratings == pytest.approx(expected["ties_half"], abs=1e-7)
        without = bradley_terry(decided, vector["anchor"]).ratings
        assert without == pytest.approx(expected["without_ties"], abs=1e-6)
        if "davidson" in expected:
            result = bradley_terry(games, vector["anchor"], model_ties=True)
            assert result.ratings == pytest.approx(expected["davidson"], abs=1e-7)
            assert result.ties == pytest.approx(expected["nu"], abs=1e-7)


def test_an_instruction_that_counts_zero_times_has_no_say_in_whether_there_is_a_length_controlled_win_rate() -> None:
    wins, longer = np.array([0.75, 0.25, 0.5, 0.75]), np.array([9.0, 2.0, 7.0, 9.0])
    difficulty, times = np.array([9.0, 5.0, 9.0, 2.0]), np.array([1, 1, 2, 0])
    shown = np.repeat(np.arange(4), times)
    whole = length_controlled_win_rate(wins[shown], longer[shown], difficulty[shown])
    assert whole is not None
    assert length_controlled_win_rate(wins, longer, difficulty, times) == pytest.approx(whole)


def test_the_length_controlled_win_rate_is_that_of_the_reference(shared: Path) -> None:
    for vector, expected in _vectors(shared, "lc_winrate"):
        wins, difficulty = np.array(vector["preference"]), np.array(vector["difficulty"])
        longer = np.array(vector["length_model"], float) - np.array(vector["length_baseline"])
        assert length_controlled_win_rate(wins, longer, difficulty) == pytest.approx(expected["winrate"], abs=1e-7)
        # A row that counts twice is two rows.
        times = np.arange(len(wins)) % 3
        repeated = (np.repeat(values, times) for values in (wins, longer, difficulty))
        counted = length_controlled_win_rate(wins, longer, difficulty, times)
        assert counted == pytest.approx(length_controlled_win_rate(*repeated), abs=1e-9)


def test_a_win_rate_at_equal_length_that_does_not_exist_is_none() -> None:
    random = np.random.RandomState(2)
    wins, longer, difficulty = random.rand(60), random.normal(50, 100, 60), random.normal(0, 1, 60)
    nothing = np.empty(0)
    assert length_controlled_win_rate(nothing, nothing, nothing) is None
    assert length_controlled_win_rate(np.ones(60), longer, difficulty) is None
    assert length_controlled_win_rate((longer > 0).astype(float), longer, difficulty) is None
    assert length_controlled_win_rate(wins, np.full(60, 30.0), difficulty) is None
    # A model against itself: nothing to control.
    same = length_controlled_win_rate(np.full(60, 0.5), np.zeros(60), difficulty)
    assert same == pytest.approx(0.5)


def _styled_games(count: int) -> tuple[list[list[Any]], list[list[tuple[float, ...]]]]:
    """Games against "base" of "long", which is no better, and of "good", by a judge that likes long answers."""
    random = np.random.RandomState(3)
    prompts, styles = [], []
    for index in range(count):
        games, differences = [], []
        for model, strength, more in (("long", 0.0, 500), ("good", 0.7, 0)):
            own, other = random.randint(100, 900, 2)
            style = style_difference((own + more, index % 3, 1, 0), (other, index % 2, 2, 1))
            won = float(random.rand() < 1 / (1 + math.exp(-strength - 1.5 * style[0])))
            swapped = index % 2
            games.append(("base", model, 1 - won) if swapped else (model, "base", won))
            differences.append(tuple(-part for part in style) if swapped else style)
        prompts.append(games)
        styles.append(differences)
    return prompts, styles


def test_style_control_takes_the_judges_liking_for_length_out_of_the_ratings() -> None:
    prompts, styles = _styled_games(1500)
    games = [game for own in prompts for game in own]
    raw = bradley_terry(games, "base").ratings
    ratings = bradley_terry(games, "base", styles=[style for own in styles for style in own]).ratings
    assert raw["long"] > 0.5
    assert ratings["long"] == pytest.approx(0, abs=0.2)
    assert ratings["good"] == pytest.approx(0.7, abs=0.2)
    intervals = rating_intervals(prompts[:300], "base", styles=styles[:300], draws=100)
    assert intervals["long"].low < 0 < intervals["long"].high
    assert intervals["good"].low < 0.7 < intervals["good"].high


def test_style_control_is_silent_where_style_and_model_cannot_be_told_apart() -> None:
    prompts, _ = _styled_games(60)
    games = [game for own in prompts for game in own]
    no_style = [(0.0, 0.0)] * len(games)
    without = bradley_terry(games, "base").ratings
    assert bradley_terry(games, "base", styles=no_style).ratings == pytest.approx(without, abs=1e-9)
    which = [[float(game[0] == "long") - float(game[1] == "long")] for game in games]
    assert bradley_terry(games, "base", styles=which).ratings == {}
    # The style alone says who wins.
    won = [[2 * game[2] - 1] for game in games]
    assert bradley_terry(games, "base", styles=won).ratings == {}
    assert rating_intervals(prompts, "base", styles=[[[0.0]] * 2] * 60, draws=40).keys() == without.keys()


def test_style_differences_are_those_of_arena_hard() -> None:
    assert style_difference((300, 2, 0, 3), (100, 0, 4, 3)) == pytest.approx(
        (0.5, (2 / 301) / (2 / 301 + 1), -(4 / 101) / (4 / 101 + 1), (3 / 301 - 3 / 101) / (3 / 301 + 3 / 101 + 1))
    )
    assert style_difference((0, 0), (0, 0)) == (0, 0)


def test_games_that_are_all_tied_have_equal_ratings() -> None:
    assert bradley_terry([("a", "b", 0.5)] * 3, "a", model_ties=True).ties == math.inf


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
        interval = _interval(corrected_mean(y[:60], f[:60], f[60:], scale=(1, 10)))
        alone = _interval(corrected_mean(y[:60], f[:60], [], scale=(1, 10)))
        both = _interval(corrected_difference((y[:60], z[:60]), (f[:60], g[:60]), (f[60:], g[60:]), scale=(1, 10)))
        of_judge = [value + 0.7 for value in shifted]
        clustered = corrected_clusters(
            shifted[:300], of_judge[:300], groups[:300], of_judge[300:], groups[300:], scale=(1, 10)
        )
        cluster = _interval(clustered)
        held["mean"] += interval.low <= 5.985 <= interval.high
        held["difference"] += both.low <= 0.49 <= both.high
        held["clusters"] += cluster.low <= 5.97 <= cluster.high
        narrower += interval.high - interval.low < alone.high - alone.low
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
