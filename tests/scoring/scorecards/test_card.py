"""Score cards: which score counts, and what passes."""

import logging
from pathlib import Path
from typing import Any

import pytest

from gage_eval.scoring.scorecards import CanonicalAnswer, CardRule, Preset, ScoreCard
from gage_eval.scoring.scorecards.card import card_rule

PRESETS = {
    "choice": Preset(primary_metric="exact_match"),
    "number": Preset(primary_metric="within_tol", pass_threshold=0.9),
    "list": Preset(primary_metric="f1"),
}
TYPES = {"choice_acc": "exact_match", "number": "number", "list": "list"}


def made(scores: dict[str, Any], answer_type: str, error_tags: list[str] | None = None) -> ScoreCard:
    rule = card_rule(answer_type, list(scores), PRESETS.get(answer_type), "v1", TYPES)
    return rule.card(scores, error_tags or [])


@pytest.mark.parametrize(
    ("answer_type", "scores", "primary"),
    [
        ("number", {"within_tol": 1.0, "value_within_tol": 0.0}, "within_tol"),
        ("number", {"value_exact": 0.0, "value_within_tol": 1.0}, "value_within_tol"),
        ("number", {"other": 0.0, "a_within_tol,last_number": 1.0}, "a_within_tol,last_number"),
        ("list", {"macrof1": 0.0, "items_f1": 1.0}, "items_f1"),
        ("list", {"items": 0.0, "macrof1": 1.0}, "macrof1"),
        ("choice", {"other": 0.0, "choice_acc": 1.0}, "choice_acc"),
        ("choice", {"other": 0.0, "choice_acc,boxed": 1.0}, "choice_acc,boxed"),
    ],
)
def test_the_primary_score_is_found_by_key_suffix_and_type(
    answer_type: str, scores: dict[str, float], primary: str
) -> None:
    card = made(scores, answer_type)
    assert (card.primary_metric, card.primary_score, card.passed) == (primary, 1.0, True)
    assert card.sub_scores == scores


def test_of_several_that_fit_the_first_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        card = made({"a_within_tol": 0.0, "b_within_tol": 1.0}, "number")
    assert card.primary_metric == "a_within_tol"
    assert "a_within_tol, b_within_tol" in caplog.text


def test_without_a_preset_the_first_score_is_primary_and_nothing_passes() -> None:
    card = made({"a": 1.0, "b": 0.0}, "text")
    assert (card.primary_metric, card.primary_score, card.passed, card.pass_threshold) == ("a", 1.0, False, None)
    empty = made({}, "text")
    assert (empty.primary_metric, empty.primary_score, empty.passed) == ("", None, False)


@pytest.mark.parametrize(("score", "passed"), [(0.05, True), (0.1, True), (0.11, False), (None, False)])
def test_where_lower_is_better_a_score_passes_up_to_the_threshold(score: float | None, passed: bool) -> None:
    rule = CardRule("text", "ter", 0.1, higher_is_better=False)
    card = rule.card({"ter": score})
    assert (card.passed, card.higher_is_better) == (passed, False)
    if score is not None:
        assert card.explain == f"ter is {score:g}, {'at most' if passed else 'above'} 0.1"


@pytest.mark.parametrize(("score", "passed"), [(0.9, True), (0.8999, False), (None, False), (0.0, False)])
def test_a_score_passes_from_the_threshold_on(score: float | None, passed: bool) -> None:
    card = made({"within_tol": score}, "number", ["unparsed", "unparsed"])
    assert (card.primary_score, card.passed) == (score, passed)
    assert card.error_tags == ["unparsed"]


def test_the_published_schema_is_that_of_the_code(repo_root: Path) -> None:
    from gage_eval.scoring.scorecards.answer import json_schema

    assert (repo_root / "docs" / "canonical_answer.schema.json").read_bytes() == json_schema(), (
        "docs/canonical_answer.schema.json is stale; write gage_eval.scoring.scorecards.answer.json_schema() to it"
    )


def test_a_canonical_answer_needs_no_scorer_version() -> None:
    answer = CanonicalAnswer(
        task_id="t", sample_id="s", answer_type="number", prediction={"text": "4"}, ground_truth={"label": "4"}
    )
    assert answer.meta.scorer_version is None
    assert CanonicalAnswer.model_validate_json(answer.model_dump_json()) == answer


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_primary_metric_that_is_not_there_is_told_to_who_chose_the_profile(
    is_chosen: bool, caplog: pytest.LogCaptureFixture
) -> None:
    card_rule("list", ["exact_match"], PRESETS["list"], "v1", TYPES, is_chosen=is_chosen)
    assert ("primary_metric 'f1'" in caplog.text) == is_chosen
