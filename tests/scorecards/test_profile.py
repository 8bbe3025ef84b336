"""Scoring profiles: what loads, what is refused, and which metrics count for a task."""

import copy
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.errors import ConfigError, InputError
from gage_eval.scorecards import (
    ANSWER_TYPES,
    MetricRule,
    NormalizationConfig,
    ScorerPreset,
    ScoringProfile,
    load_profile,
    resolve_metrics,
)
from gage_eval.scorecards.profile import metric_entry

RAW: dict[str, Any] = {
    "scorers": {
        "choice": {"primary_metric": "exact_match", "metrics": [{"type": "exact_match", "name": "choice_acc"}]},
        "number": {
            "primary_metric": "within_tol",
            "pass_threshold": 0.9,
            "metrics": [{"type": "number", "name": "price", "tolerance": 0.5}],
        },
    }
}
OWN = [{"type": "contains"}]


def test_the_shipped_profile_has_a_preset_for_every_answer_type() -> None:
    profile = load_profile()
    assert tuple(profile.scorers) == ANSWER_TYPES
    assert profile.version == "v1"
    assert {preset.pass_threshold for preset in profile.scorers.values()} == {0.5}


def test_what_a_profile_leaves_out_has_its_defaults() -> None:
    profile = ScoringProfile.from_dict({"scorers": {"choice": RAW["scorers"]["choice"]}})
    assert profile.version == "v1"
    assert profile.normalization == NormalizationConfig(
        lowercase=True, trim_whitespace=True, collapse_spaces=True, unit_aliases={}
    )
    assert profile.scorers["choice"].pass_threshold == 0.5
    assert ScoringProfile.from_dict({}).scorers == {}


def test_reading_a_profile_changes_nothing_of_what_was_read() -> None:
    before = copy.deepcopy(RAW)
    ScoringProfile.from_dict(RAW)
    ScorerPreset.from_dict(RAW["scorers"]["number"])
    assert before == RAW


def test_a_profile_survives_being_written_and_read() -> None:
    profile = ScoringProfile.from_dict(RAW)
    again = ScoringProfile.from_dict(yaml.safe_load(yaml.safe_dump(profile.model_dump(mode="json"))))
    assert again == profile
    rule = again.scorers["number"].metrics[0]
    assert rule.to_rule_dict() == RAW["scorers"]["number"]["metrics"][0]
    assert rule.extras == {"tolerance": 0.5}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "exact_mach"}, "scorers.choice.metrics[0]: no metric 'exact_mach'"),
        ({"type": "exact_mach"}, "Did you mean 'exact_match'?"),
        ({"type": "exact_match", "case": 1}, "exact_match has no parameter 'case'"),
        ({"name": "x"}, "scorers.choice.metrics[0].type"),
    ],
)
def test_a_metric_that_is_not_there_is_refused_when_the_profile_is_loaded(change: dict[str, Any], said: str) -> None:
    raw = {"scorers": {"choice": {"primary_metric": "exact_match", "metrics": [change]}}}
    with pytest.raises(ConfigError) as refusal:
        ScoringProfile.from_dict(raw)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"scorer": {}}, "scorer"),
        ({"scorers": {"choise": RAW["scorers"]["choice"]}}, "Did you mean 'choice'?"),
        ({"scorers": {"choice": {"primary_metric": "a", "metrics": []}}}, "scorers.choice.metrics"),
        ({"normalization": {"lowercase": "yes"}}, "normalization.lowercase"),
        ({"normalization": {"unit_aliases": {"kg": ["kilo"], "kilobyte": ["Kilo"]}}}, "'Kilo' is a spelling of"),
        ({"normalization": {"unit_aliases": {"kg": [" "]}}}, "unit_aliases"),
    ],
)
def test_mistakes_of_a_profile_are_named_with_their_place(raw: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        ScoringProfile.from_dict(raw)
    assert said in str(refusal.value)


def test_all_mistakes_are_said_at_once() -> None:
    metrics = [{"type": "exact_mach"}, {"type": "number", "tolerance": "x"}]
    with pytest.raises(ConfigError) as refusal:
        ScoringProfile.from_dict({"scorers": {"choice": {"primary_metric": "a", "metrics": metrics}}})
    assert len(refusal.value.problems) == 2


@pytest.mark.parametrize("text", ["", "[]", "a: [", "x"])
def test_a_file_that_is_no_profile_is_one_sentence(text: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"p\.yaml"):
        load_profile(file)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    for version in ("v1", "v2"):
        file.write_text(f"version: {version}")
        assert load_profile("p.yaml", base_dir=tmp_path).version == version


def test_profiles_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no scoring profile 'defalt'.*Did you mean 'default'"):
        load_profile("defalt")
    with pytest.raises(InputError, match="cannot read"):
        load_profile("none.yaml", base_dir=tmp_path)


# The three layers


def test_without_an_answer_type_the_metrics_are_the_tasks_own() -> None:
    assert resolve_metrics(None, OWN) == OWN
    assert resolve_metrics(None, []) == []


def test_without_metrics_of_its_own_a_task_gets_the_preset() -> None:
    assert resolve_metrics("choice", [], ScoringProfile.from_dict(RAW)) == [
        {"type": "exact_match", "name": "choice_acc"}
    ]


def test_metrics_of_the_task_win_over_the_preset() -> None:
    assert resolve_metrics("choice", OWN) == OWN


def test_extend_puts_the_tasks_metrics_behind_the_presets() -> None:
    profile = ScoringProfile.from_dict(RAW)
    assert [rule["type"] for rule in resolve_metrics("choice", OWN, profile, mode="extend")] == [
        "exact_match",
        "contains",
    ]


def test_an_answer_type_without_a_preset_leaves_the_tasks_metrics_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert resolve_metrics("numbr", OWN, ScoringProfile.from_dict(RAW)) == OWN
    assert "no preset for answer_type 'numbr'" in caplog.text
    assert "Did you mean 'number'?" in caplog.text


def test_a_rule_is_an_entry_of_metrics() -> None:
    rule = MetricRule.model_validate({"type": "number", "name": "price", "tolerance": 0.5, "filters": ["last_number"]})
    assert metric_entry(rule.to_rule_dict()) == {
        "metric_id": "price",
        "implementation": "number",
        "params": {"name": "price", "tolerance": 0.5},
        "filters": ["last_number"],
    }
    assert metric_entry({"type": "exact_match", "name": "acc"})["params"] == {}
