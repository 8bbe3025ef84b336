"""Scoring profiles: what loads, what is refused, and which metrics count for a task."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError, InputError, Problem
from gage_eval.config.load import parse_config
from gage_eval.config.models import MetricConfig
from gage_eval.config.scoring_profiles import load_profile, parse_profile
from gage_eval.scoring.metrics.normalization import NormalizationConfig
from gage_eval.scoring.scorecards import ANSWER_TYPES
from tests.support.workspace import config


def profile_of(*metrics: Any, **others: Any) -> str:
    """The text of a profile with these metrics for texts."""
    return yaml.safe_dump({"scorers": {"text": {"primary_metric": "exact_match", "metrics": list(metrics)}}, **others})


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as refused:
        parse_profile(text, "mine.yaml")
    return refused.value.problems


def test_the_shipped_profile_has_a_preset_for_every_answer_type() -> None:
    profile = load_profile()
    assert tuple(profile.scorers) == ANSWER_TYPES
    assert profile.version == "v1"
    assert {preset.pass_threshold for preset in profile.scorers.values()} == {0.5}


def test_what_a_profile_leaves_out_has_its_defaults() -> None:
    profile = parse_profile(profile_of("exact_match"), "mine.yaml")
    assert profile.version == "v1"
    assert profile.normalization == NormalizationConfig(
        lowercase=True, trim_whitespace=True, collapse_spaces=True, unit_aliases={}
    )
    assert profile.scorers["text"].pass_threshold == 0.5
    assert parse_profile("version: v2", "mine.yaml").scorers == {}


@pytest.mark.parametrize("field", sorted(MetricConfig.model_fields.keys() - {"metric_id", "implementation", "params"}))
def test_a_metric_may_say_whatever_an_entry_of_a_config_may(field: str) -> None:
    values = {
        "aggregation": "median",
        "cluster_field": "sample.metadata.page",
        "weight_field": "sample.metadata.weight",
        "slices": ["sample.metadata.page"],
        "filters": ["last_number"],
        "value_key": "share",
        "on_missing_field": "error",
        "references": "all",
        "description": "How often the answer holds all of them.",
    }
    profile = parse_profile(profile_of({"type": "contains", "name": "all_of_them", field: values[field]}), "mine.yaml")
    assert profile.scorers["text"].metrics == (
        MetricConfig(metric_id="all_of_them", implementation="contains", **{field: values[field]}),
    )


@pytest.mark.parametrize("metric", ["exact_match", "exact_match()", {"exact_match": {}}, {"type": "exact_match"}])
def test_a_metric_may_be_written_in_every_form_of_a_config(metric: Any) -> None:
    (made,) = parse_profile(profile_of(metric), "mine.yaml").scorers["text"].metrics
    assert (made.metric_id, made.implementation) == ("exact_match", "exact_match")


def test_a_metric_with_a_parameter_name_gets_its_name() -> None:
    number = {"type": "number", "name": "price", "tolerance": 0.5, "filters": ["last_number"]}
    metrics = parse_profile(profile_of(number, {"type": "exact_match", "name": "acc"}), "m").scorers["text"].metrics
    assert [metric.metric_id for metric in metrics] == ["price", "acc"]
    assert [metric.params for metric in metrics] == [{"name": "price", "tolerance": 0.5}, {}]


def test_no_is_a_text_as_in_a_config() -> None:
    text = "scorers: {text: {primary_metric: a, metrics: [{type: exact_match, filters: [{regex: {pattern: no}}]}]}}"
    (metric,) = parse_profile(text, "mine.yaml").scorers["text"].metrics
    assert metric.filters == [{"regex": {"pattern": "no"}}]
    (problem,) = problems_of("normalization: {lowercase: no}")
    assert problem.path == "normalization.lowercase"


@pytest.mark.parametrize(
    ("metric", "place"),
    [
        ({"type": "exact_mach"}, ""),
        ({"type": "exact_match", "case": 1}, ""),
        ({"type": "exact_match", "on_missing_field": "sometimes"}, ".on_missing_field"),
        ({"type": "exact_match", "filters": 3}, ".filters"),
        ({"name": "x"}, ""),
    ],
)
def test_a_metric_that_does_not_work_is_refused_when_the_profile_is_loaded(metric: Any, place: str) -> None:
    problems = problems_of(profile_of("contains", metric))
    assert {problem.path for problem in problems} <= {f"scorers.text.metrics[1]{place}", "scorers.text.metrics[1].name"}
    assert all(problem.line is not None for problem in problems)


def test_an_unknown_metric_names_the_closest() -> None:
    (problem,) = problems_of(profile_of("exact_mach"))
    assert "'exact_match'" in problem.message


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ({"scorer": {}}, "scorer"),
        ({"scorers": {"choise": {"primary_metric": "a", "metrics": ["contains"]}}}, "scorers.choise"),
        ({"scorers": {"choice": {"primary_metric": "a", "metrics": []}}}, "scorers.choice.metrics"),
        ({"normalization": {"lowercase": "yes"}}, "normalization.lowercase"),
        ({"normalization": {"unit_aliases": {"kg": ["kilo"], "kilobyte": ["Kilo"]}}}, "normalization"),
        ({"normalization": {"unit_aliases": {"kg": [" "]}}}, "normalization.unit_aliases"),
    ],
)
def test_mistakes_of_a_profile_are_named_with_their_place(raw: dict[str, Any], place: str) -> None:
    (problem,) = problems_of(yaml.safe_dump(raw))
    assert (problem.path, problem.line is None) == (place, False)


def test_all_mistakes_are_said_at_once() -> None:
    assert len(problems_of(profile_of("exact_mach", {"type": "number", "tolerance": "x"}))) == 2


@pytest.mark.parametrize("text", ["", "{}", "[]", "a: [", "x"])
def test_a_file_that_is_no_profile_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_profile("p.yaml", tmp_path)
    assert (refused.value.source, len(refused.value.problems)) == ("p.yaml", 1)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        (tmp_path / "p.yaml").write_text(f"version: {version}")
        assert load_profile("p.yaml", tmp_path).version == version


def test_profiles_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'default'"):
        load_profile("defalt")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "long.yaml").write_bytes(b"#" * 2**21)
    for name in ("none.yaml", "pipe.yaml", "zero.yaml", "long.yaml"):
        with pytest.raises(InputError, match=name):
            load_profile(name, tmp_path)


def test_a_config_names_every_mistake_of_its_profile_in_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(profile_of("exact_mach", {"type": "number", "tolerance": "x"}))
    tasks = [{"task_id": "t", "dataset_id": "sums", "answer_type": "text", "scoring_profile": "p.yaml"}]
    with pytest.raises(ConfigError) as refused:
        parse_config(yaml.safe_dump(config(tasks=tasks)), base_dir=tmp_path)
    problems = refused.value.problems
    assert [problem.path for problem in problems] == ["tasks[0].scoring_profile"] * 2
    assert [problem.message.partition(": ")[0] for problem in problems] == ["p.yaml:4", "p.yaml:5"]
    assert "\\n" not in str(refused.value)
