"""Metrics on likelihoods give the lm-eval harness's numbers, and never read missing data as a score."""

import math
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import responses, sample, samples
from vectors import number, references, score_one, vector_rows

from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.builtin.loglikelihood import softmax

NAMES = {
    "acc": "acc",
    "acc_norm": "acc_norm",
    "acc_bytes": "acc_bytes",
    "acc_mutual_info": "acc_mutual_info",
    "exact_match": "greedy_match",
}


def _fields(choices: list[str], gold: Any) -> dict[str, Any]:
    """A sample with options 0, 1, … and the right ones as references."""
    right = gold if isinstance(gold, list) else [gold]
    return {
        "options": [{"id": str(place), "content": text} for place, text in enumerate(choices)],
        "references": references(*map(str, right)),
    }


def _response(
    lls: list[float], greedy: list[bool] | None = None, unconditioned: list[float] | None = None
) -> dict[str, Any]:
    flags: list[bool | None] = list(greedy) if greedy else [None] * len(lls)
    body: dict[str, Any] = {"choices": [{"ll": ll, "is_greedy": flag} for ll, flag in zip(lls, flags, strict=True)]}
    if unconditioned is not None:
        body["unconditioned"] = [{"ll": ll} for ll in unconditioned]
    return {"logprobs": orjson.dumps(body).decode()}


def _aggregate(name: str, rows: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    metric = bind(name)
    table = metric.score_table(
        {
            "samples": samples([sample(i, None, **fields) for i, (fields, _) in enumerate(rows)]),
            "responses": responses([response for _, response in rows]),
        }
    )
    return {row["value_key"]: row for row in metric.aggregate([table], {"ok": len(rows)})}


def test_every_row_of_the_harness_gets_its_score(shared: Path) -> None:
    rows = [row for row in vector_rows(shared, "lm_eval_loglikelihood") if not row["group"].startswith("corpus")]
    checked = 0
    for row in rows:
        response = _response(row["loglikelihoods"], row.get("is_greedy"), row.get("unconditional_loglikelihoods"))
        for name, expected in row["expected"].items():
            if name != "probabilities":
                values = score_one(NAMES[name], _fields(row["choices"], row["gold"]), response)["values"]
                assert values == {NAMES[name]: expected}, (row["id"], name)
                checked += 1
    assert (len(rows), checked) == (182, 698)


def test_probabilities_are_those_of_the_harness(shared: Path) -> None:
    for row in vector_rows(shared, "lm_eval_loglikelihood"):
        if "probabilities" in row.get("expected", {}):
            lls = [number(ll) for ll in row["loglikelihoods"]]
            assert softmax(lls) == pytest.approx(row["expected"]["probabilities"], abs=1e-9), row["id"]


def test_means_and_errors_of_a_corpus_are_those_of_the_harness(shared: Path) -> None:
    (row,) = [row for row in vector_rows(shared, "lm_eval_loglikelihood") if row["group"] == "corpus"]
    pairs = [(_fields(item["choices"], item["gold"]), _response(item["loglikelihoods"])) for item in row["items"]]
    for name in ("acc", "acc_norm", "acc_bytes"):
        row_of_metric = _aggregate(name, pairs)[name]
        assert row_of_metric["value"] == pytest.approx(row["expected"][name], abs=1e-9)
        assert row_of_metric["stderr"] == pytest.approx(row["expected"][f"{name},stderr"], abs=1e-9)


def test_the_brier_score_of_a_corpus_is_that_of_the_harness(shared: Path) -> None:
    (row,) = [row for row in vector_rows(shared, "lm_eval_loglikelihood") if row["group"] == "corpus_brier"]
    pairs = [
        (_fields(["x"] * len(item["loglikelihoods"]), item["gold"]), _response(item["loglikelihoods"]))
        for item in row["items"]
    ]
    assert _aggregate("brier_score", pairs)["brier"]["value"] == pytest.approx(row["expected_brier_score"], abs=1e-9)


@pytest.mark.parametrize(
    "name", ["acc", "acc_norm", "acc_bytes", "acc_mutual_info", "greedy_match", "brier_score", "ece"]
)
@pytest.mark.parametrize(
    "response",
    [
        {},
        {"logprobs": "{}"},
        {"logprobs": '{"choices": [{"ll": -1}]}'},
        {"logprobs": '{"choices": [{"ll": null}, {"ll": -1}]}'},
        {"logprobs": '{"choices": [{"ll": "-1"}, {"ll": true}]}'},
        {"logprobs": '{"choices": "x"}'},
        {"logprobs": "[-1, -2]"},
        {"logprobs": '{"choices": [{"ll": "Infinity"}, {"ll": "NaN"}]}'},
    ],
)
def test_missing_or_broken_likelihoods_are_unscored(name: str, response: dict[str, Any]) -> None:
    assert score_one(name, _fields(["a", "b"], 0), response)["status"] == "unscored"


@pytest.mark.parametrize(
    ("name", "gold", "reason"),
    [
        ("acc", "nothing", "is not one of the options"),
        ("acc_mutual_info", 0, "no unconditioned"),
        ("greedy_match", 0, "does not say is_greedy"),
        ("brier_score", [0, 1], "one right choice"),
    ],
)
def test_what_a_metric_needs_and_has_not_is_said(name: str, gold: Any, reason: str) -> None:
    scored = score_one(name, _fields(["a", "b"], gold), _response([-1.0, -2.0]))
    assert scored["status"] == "unscored"
    assert reason in scored["explanation"]


def test_the_calibration_error_is_the_gap_of_confidence_and_accuracy_in_each_bin() -> None:
    """0.4125 = (|0.1 − 0.9| + |0.3| + |−0.55|) / 4, by hand from the formula of Guo et al. (2017)."""
    pairs = [
        (_fields(["a", "b"], gold), _response([math.log(share), math.log(1 - share)]))
        for share, gold in ((0.9, 0), (0.9, 1), (0.7, 0), (0.55, 1))
    ]
    row = _aggregate("ece", pairs)["ece"]
    assert row["value"] == pytest.approx(0.4125)
    assert (row["interval"], row["n"], row["higher_is_better"]) == ("bootstrap", 4, False)
    assert score_one("ece", *pairs[1])["values"] == {"ece": pytest.approx(0.9)}


def test_the_right_choice_may_be_named_by_its_text() -> None:
    fields = {**_fields(["cat", "dog"], 0), "references": references("dog")}
    assert score_one("acc", fields, _response([-2.0, -1.0]))["values"] == {"acc": 1.0}


def test_an_empty_choice_divides_by_no_zero() -> None:
    scored = score_one("acc_norm", _fields(["", "ab"], 1), _response([-2.0, -2.0]))
    assert (scored["values"], scored["extracted"]) == ({"acc_norm": 1.0}, "1")


def test_a_choice_that_cannot_be_is_never_the_best() -> None:
    response = {"logprobs": '{"choices": [{"ll": "-Infinity"}, {"ll": -9}]}'}
    assert score_one("acc", _fields(["a", "b"], 1), response)["values"] == {"acc": 1.0}
    assert score_one("brier_score", _fields(["a", "b"], 0), response)["values"] == {"brier": 2.0}


TEXTS = {"a few words": -9.0, "naïve café": -12.5, "x": -1.0}


def _texts() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [({"references": references(text)}, _response([ll])) for text, ll in TEXTS.items()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("word_perplexity", math.exp(22.5 / 6)),
        ("byte_perplexity", math.exp(22.5 / (11 + 12 + 1))),
        ("bits_per_byte", 22.5 / (24 * math.log(2))),
    ],
)
def test_perplexities_of_a_corpus_are_weighted_by_size(name: str, expected: float) -> None:
    number = _aggregate(name, _texts())[name]
    assert number["value"] == pytest.approx(expected)
    assert number["n"] == 3


def test_likelihood_is_a_mean_over_tokens_of_the_corpus() -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"logprobs": '{"token_logprobs": [null, -1, -2, [-3]]}'}),
        ({}, {"logprobs": '{"content": [{"token": "a", "logprob": -4}]}'}),
        ({}, {"logprobs": '{"choices": [{"ll": -6, "tokens": 2}]}'}),
        ({}, {"logprobs": "[-1, -1]"}),
        ({}, {"logprobs": '{"loss": 3}'}),
    ]
    numbers = _aggregate("likelihood", rows)
    assert numbers["nll"]["value"] == pytest.approx(21 / 9)
    assert numbers["ppl"]["value"] == pytest.approx(math.exp(21 / 9))


@pytest.mark.parametrize(
    "logprobs",
    [None, "{}", '{"token_logprobs": []}', '{"loss": "x"}', '{"loss": true}', '{"content": [-1e308, -1e308]}', '"x"'],
)
@pytest.mark.parametrize("name", ["likelihood", "word_perplexity", "byte_perplexity", "bits_per_byte"])
def test_a_missing_loss_is_not_a_perfect_one(name: str, logprobs: str | None) -> None:
    fields = {"references": references("x")}
    assert score_one(name, fields, {"logprobs": logprobs})["status"] == "unscored"


def test_a_perplexity_too_large_for_a_float_is_cut_off_in_its_row_only() -> None:
    texts = [({"references": references("x")}, _response([ll])) for ll in (-5000.0, -1.0)]
    number = _aggregate("word_perplexity", texts)["word_perplexity"]
    assert number["n"] == 2
    assert number["value"] is None
    assert _aggregate("bits_per_byte", texts)["bits_per_byte"]["value"] == pytest.approx(5001 / 2 / math.log(2))


@given(st.lists(st.floats(-1e6, 0, allow_nan=False), min_size=2, max_size=6))
def test_probabilities_add_up_to_one(lls: list[float]) -> None:
    assert math.fsum(softmax(lls)) == pytest.approx(1)
