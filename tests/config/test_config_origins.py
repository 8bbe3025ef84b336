"""Every effective value of a config knows where it came from; an error names what no line of the file says."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError
from gage_eval.config.document import Document, Origin
from gage_eval.config.environment import EnvironmentValue
from gage_eval.config.interpolate import FilledTree
from gage_eval.config.load import LoadedConfig, load_config, parse_config
from gage_eval.config.rules import apply_rules, name_implied_tasks

TEXT = """\
datasets:
  - dataset_id: mine
    params:
      path: ${DATA:-mine.jsonl}
      max_samples: 9
backends:
  - backend_id: local
    type: dummy
metrics:
  - exact_match
  - numeric_match: {tolerance: 0.1}
"""


def load(text: str = TEXT, **changes: Any) -> LoadedConfig:
    return parse_config(text, source="mine.yaml", **{"env": {}, **changes})


def origins(**changes: Any) -> dict[str, str]:
    return {path: str(origin) for path, origin in load(**changes).origins.items()}


def test_a_value_of_the_file_has_its_line() -> None:
    by_path = origins()
    assert by_path["datasets[0].dataset_id"] == "mine.yaml:2"
    assert by_path["backends[0].type"] == "mine.yaml:8"


def test_an_older_spelling_is_found_by_the_name_of_the_field() -> None:
    assert origins()["datasets[0].params.limit"] == "mine.yaml:5"


def test_a_short_form_is_where_it_stands() -> None:
    by_path = origins()
    assert by_path["metrics[0].implementation"] == "mine.yaml:10"
    assert (by_path["metrics[1].metric_id"], by_path["metrics[1].params.tolerance"]) == ("mine.yaml:11", "mine.yaml:11")


def test_a_placeholder_names_its_variable() -> None:
    assert origins()["datasets[0].params.path"] == "mine.yaml:4 with DATA"


def test_the_command_line_is_named_by_its_option() -> None:
    changes = ["tasks.mine.few_shot={k: 2, dataset_id: mine}", "metrics.numeric_match.params.tolerance=1"]
    by_path = origins(overrides=changes, max_samples=3)
    assert by_path["tasks[0].few_shot.k"] == "--set tasks.mine.few_shot"
    assert by_path["metrics[1].params.tolerance"] == "--set metrics.numeric_match.params.tolerance"
    assert by_path["metrics[1].implementation"] == "mine.yaml:11"
    assert by_path["tasks[0].max_samples"] == "--max-samples"


def test_the_environment_is_named_by_its_variable() -> None:
    by_path = origins(settings={"max_samples": EnvironmentValue("GAGE_EVAL_MAX_SAMPLES", 4)})
    assert by_path["tasks[0].max_samples"] == "GAGE_EVAL_MAX_SAMPLES"


def test_what_is_implied_names_its_rule() -> None:
    by_path = origins()
    assert by_path["tasks[0].dataset_id"] == "rule implied-tasks: a config without tasks has one task per dataset"
    assert by_path["datasets[0].loader"] == "rule loader: the default loader of this data is 'jsonl'"
    assert by_path["tasks[0].adapter_id"] == "rule only-adapter: the step 'inference' has the only dut_model"
    assert by_path["tasks[0].steps[0].step"].startswith("rule steps: ")
    assert by_path["role_adapters[0].backend_id"].startswith("rule implied-adapters: ")


def test_a_default_has_no_origin() -> None:
    assert "tasks[0].max_error_share" not in origins()


def test_a_suite_s_template_is_one(tmp_path: Path) -> None:
    file = tmp_path / "v1.yaml"
    body = "".join(f"  {line}\n" for line in TEXT.splitlines())
    file.write_text(f"kind: BuiltinTemplate\nmetadata:\n  name: small\ndefinition:\n{body}")
    by_path = load_config(file, env={}).origins
    assert by_path["backends[0].type"] == Origin("template", str(file), 12)
    assert by_path["metadata.name"] == Origin("template", str(file), 3)


def test_origins_are_in_no_digest() -> None:
    moved = load(text="# A comment.\n" + TEXT)
    assert moved.digest == load().digest
    assert moved.origins != load().origins


def test_implied_tasks_follow_a_dataset_renamed_on_the_command_line() -> None:
    (task,) = load(overrides=["datasets.mine.dataset_id=yours"]).config.tasks
    assert (task.task_id, task.dataset_id) == ("yours", "yours")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"overrides": ["datasets.mine.params.seed=x"]}, "(given by --set datasets.mine.params.seed)"),
        ({"settings": {"threads": EnvironmentValue("GAGE_EVAL_THREADS", 5000)}}, "(given by GAGE_EVAL_THREADS)"),
    ],
)
def test_an_error_names_what_gave_a_wrong_value(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**changes)
    (problem,) = caught.value.problems
    assert problem.line is None
    assert problem.message.endswith(line)


def ruled(text: str) -> Any:
    """What the rules make of values that nobody has validated."""
    document = Document(FilledTree(value=yaml.safe_load(text)), "mine.yaml")
    name_implied_tasks(document)
    apply_rules(document)
    return document.data


def test_rules_applied_twice_change_nothing() -> None:
    once = ruled(TEXT)
    assert ruled(yaml.safe_dump(once)) == once


def test_rules_leave_alone_what_is_set() -> None:
    text = """\
datasets: [{dataset_id: d, loader: csv, params: {path: d.jsonl}}]
backends: [{backend_id: a, type: dummy}, {backend_id: b, type: dummy}]
role_adapters: [{adapter_id: x, role_type: dut, backend_id: b}, {adapter_id: y, role_type: dut, backend_id: a}]
tasks: [{task_id: t, dataset_id: d, adapter_id: y, steps: [infer]}]
"""
    assert ruled(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "datasets: 5",
        "datasets: [5, {dataset_id: [a]}]\nbackends: {a: b}",
        "tasks: [5, {steps: 5}]\nmetrics: 7\nrole_adapters: [{role_type: {}}]\nbackends: [{backend_id: b}]",
        "custom: [1]\ntasks: [{metrics: ['m(']}]\nbackends: [{backend_id: b}]",
    ],
)
def test_rules_leave_what_they_cannot_read_to_the_validation(text: str) -> None:
    data = yaml.safe_load(text)
    for section, value in ruled(text).items():
        if section in data and section != "tasks":
            assert value == data[section] or section == "role_adapters"


def test_a_misspelled_role_hides_no_other_mistake_and_adds_none() -> None:
    text = TEXT + (
        "role_adapters:\n"
        "  - {adapter_id: dut, role_type: dut_model}\n"
        "  - {adapter_id: judge, role_type: judge_modle}\n"
        "tasks:\n"
        "  - {task_id: t, dataset_id: mime, judge_adapter_id: judge}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("role_adapters[1].role_type", 14),
        ("tasks[0].dataset_id", 16),
    ]
