"""A metric declares its range and direction once; intervals, unparsed answers and best-of-k follow it."""

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from score_tables import answers, responses, sample, samples
from support.registered import keep

from gage_eval.base.errors import InputError
from gage_eval.extend.registry import metrics
from gage_eval.scoring.metrics import BoundMetric, bind
from gage_eval.scoring.metrics.base import metric
from gage_eval.scoring.metrics.scale import Scale, read_scales


def scored(bound: BoundMetric, texts: Sequence[str], label: str = "the cat") -> pa.Table:
    rows = [sample(row, label) for row in range(len(texts))]
    return bound.score_table({"samples": samples(rows), "responses": answers(texts)})


def numbers(bound: BoundMetric, texts: Sequence[str], label: str = "the cat") -> dict[str, dict[str, Any]]:
    rows = bound.aggregate([scored(bound, texts, label)], {})
    return {f"{row['value_key']} {row['aggregation']}": row for row in rows}


def test_every_built_in_metric_whose_errors_or_costs_it_counts_says_that_lower_is_better() -> None:
    lower = {
        f"{name}.{key}"
        for name in metrics.names()
        for key, scale in metrics.get(name).info["scales"].items()
        if metrics.get(name).is_builtin and scale["higher_is_better"] is False
    }
    assert lower == {
        "bits_per_byte.bits_per_byte",
        "brier_score.brier",
        "byte_perplexity.byte_perplexity",
        "cer.cer",
        "ece.ece",
        "latency.latency_ms",
        "likelihood.nll",
        "likelihood.ppl",
        "lm_eval.bits",
        "lm_eval.corpus_loss",
        "lm_eval.loss",
        "lm_eval.perplexity",
        "number.{name}_abs_error",
        "ter.ter",
        "wer.wer",
        "word_perplexity.word_perplexity",
    }


def test_students_interval_ends_where_the_metrics_range_ends() -> None:
    row = numbers(bind("token_f1"), ["the cat", "the dog"])["f1 mean"]
    assert (row["interval"], row["ci_low"], row["ci_high"]) == ("t", 0.0, 1.0)
    assert row["ci_low"] <= row["value"] <= row["ci_high"]
    row = numbers(bind("text_length", aggregation="mean"), ["a", "a" * 9])["length mean"]
    assert row["ci_low"] == 0.0
    assert row["ci_high"] > 9


def test_an_unparsed_answer_gets_no_perfect_error() -> None:
    """0 is the best error rate: an answer that a filter finds nothing in must not get it."""
    bound = bind("number", {"name": "x"}, filters=["last_number"])
    by_key = {row["value_key"]: row for row in bound.aggregate([scored(bound, ["5", "none"], "7")], {})}
    assert (by_key["x_abs_error"]["value"], by_key["x_abs_error"]["n"], by_key["x_abs_error"]["unparsed"]) == (
        2.0,
        1,
        1,
    )
    assert (by_key["x_exact"]["value"], by_key["x_exact"]["n"]) == (0.0, 2)


def test_the_best_replicate_of_an_error_rate_is_the_smallest() -> None:
    bound = bind("ter", aggregation=["best", "pass@1"])
    said = ["the cat", "the dog"]
    answered = responses([{"row_index": 0, "replicate": place, "answer": text} for place, text in enumerate(said)])
    table = bound.score_table({"samples": samples([sample(0, "the cat")]), "responses": answered})
    by_aggregation = {row["aggregation"]: row for row in bound.aggregate([table], {})}
    assert by_aggregation["best"]["value"] == 0.0
    assert by_aggregation["pass@1"]["value"] == 0.5
    assert (by_aggregation["best"]["higher_is_better"], by_aggregation["pass@1"]["higher_is_better"]) == (False, True)


def test_right_answers_are_counted_only_where_an_answer_can_be_right() -> None:
    with pytest.raises(InputError, match=r"metric latency: aggregation pass@1 counts right answers, and no answer is"):
        bind("latency", aggregation="pass@1")
    # 40 of 100 BLEU is not right.
    by_name = numbers(
        bind("bleu", aggregation=["pass@1", "std"]), ["the cat sat on a mat", "a"], "the cat sat on the mat"
    )
    assert by_name["bleu pass@1"]["value"] == 0.0
    assert by_name["bleu std"]["higher_is_better"] is None


def test_a_value_outside_the_declared_bounds_costs_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, metrics)

    @metric("test_bounded", bounds=(0, 10))
    def bounded(prediction: str) -> float:
        return float(prediction)

    table = scored(bind("test_bounded"), ["7", "11"])
    assert table["status"].to_pylist() == ["scored", "unscored"]
    assert table["explanation"].to_pylist()[1].endswith("gave 11, outside the bounds that it declares")


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ({}, Scale(higher_is_better=True, low=None, high=None, perfect=1.0)),
        ({"binary": True}, Scale(higher_is_better=True, low=0, high=1, perfect=1.0, binary=True)),
        ({"higher_is_better": False}, Scale(higher_is_better=False, low=None, high=None, perfect=0.0)),
        ({"higher_is_better": False, "bounds": (0, 1)}, Scale(higher_is_better=False, low=0, high=1, perfect=0.0)),
        (
            {"higher_is_better": False, "bounds": (0, None)},
            Scale(higher_is_better=False, low=0, high=None, perfect=None),
        ),
        ({"bounds": (0, 100), "perfect": 100}, Scale(higher_is_better=True, low=0, high=100, perfect=100)),
        ({"bounds": (None, None)}, Scale(higher_is_better=True, low=None, high=None, perfect=None)),
        ({"higher_is_better": None}, Scale(higher_is_better=None, low=None, high=None, perfect=None)),
    ],
)
def test_full_credit_follows_from_direction_and_range(declared: dict[str, Any], wanted: Scale) -> None:
    settings = {"higher_is_better": True, "bounds": None, "perfect": None, "binary": False, **declared}
    assert read_scales(["x"], **settings) == {"x": wanted}


@pytest.mark.parametrize("bounds", [(1, 0), (1, 1), (0, math.inf), (math.nan, 1)])
def test_bounds_that_are_no_range_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        read_scales(["x"], higher_is_better=True, bounds=bounds, perfect=None, binary=False)
