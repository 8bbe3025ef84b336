"""Options are declared once, in `RunOptions`: command line, Python API and flows have its names, defaults and texts."""

import inspect
import re
from importlib import import_module
from typing import Any

import pytest
import typer
from annotated_types import Ge
from prefect import Flow

import gage_eval
from flows.evaluate import evaluate
from flows.parameters import options_of, parameters_of
from flows.suite import suite
from gage_eval.cli.main import app, main
from gage_eval.errors import InputError
from gage_eval.runs.options import GROUPS, ModelOptions, RunOptions, SourceOptions

FIELDS = RunOptions.model_fields
# Options of a resumed run, and what a caller of the API says by a mapping.
NOT_OF_A_NEW_RUN = {"text", "resume", "only_errors"}
MODELS = ModelOptions.model_fields.keys()
COMMANDS = {
    "run": FIELDS.keys() - NOT_OF_A_NEW_RUN,
    # A suite names its config and its model by options of its own.
    "suite": FIELDS.keys() - NOT_OF_A_NEW_RUN - {"config", "model_path"},
    "resume": {"store", "output_dir", "only_errors", "verify"},
    "plan": FIELDS.keys() - NOT_OF_A_NEW_RUN - {"run_id", "refresh", "verify"},
    "preview": {"config", "store", "max_samples", "sample_ids", "data_dir", "model_path", "overrides", *MODELS},
    "validate": {"config", "data_dir", "model_path", "overrides", *MODELS},
}
SPELLED = {"sample_ids": "--sample-id", "overrides": "--set", "data_dir": "--data", "judges": "--judge"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_the_options_as_they_are_declared(command: str) -> None:
    for module in ("runs", "plan", "inspect"):
        import_module(f"gage_eval.cli.{module}")
    group = typer.main.get_command(app)
    parameters = {one.name: one for one in group.commands[command].params}
    # The argument of `resume` is the run.
    shared = (parameters.keys() & FIELDS.keys()) - ({"run_id"} if command == "resume" else set())
    assert shared == COMMANDS[command]
    for name in shared - {"config"}:
        declared, shown = FIELDS[name], parameters[name]
        many = isinstance(declared.default, tuple)
        assert shown.opts == [SPELLED.get(name, f"--{name.replace('_', '-')}")]
        assert shown.help == f"{declared.description}{' May be repeated.' if many else ''}"
        assert (shown.default or None) == (declared.default or None)
        assert shown.multiple == many


@pytest.mark.parametrize("option", ["concurrency", "max_samples"])
def test_a_command_refuses_the_numbers_that_the_model_refuses(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    (least,) = (limit.ge for limit in FIELDS[option].metadata if isinstance(limit, Ge))
    with pytest.raises(SystemExit) as ended:
        main(["run", "mine.yaml", f"--{option.replace('_', '-')}", str(least - 1)])
    assert ended.value.code == 2
    assert f"greater than or equal to {least}" in capsys.readouterr().err


def test_the_api_takes_the_options_as_they_are_declared() -> None:
    parameters = inspect.signature(gage_eval.run).parameters
    own = {"inline", "progress"}
    assert parameters.keys() - own == FIELDS.keys() - NOT_OF_A_NEW_RUN
    texts = re.sub(r"\s+", " ", inspect.getdoc(gage_eval.run) or "")
    for name in parameters.keys() - own:
        if name != "config":
            assert parameters[name].default == FIELDS[name].default
        assert f" {name}: {FIELDS[name].description}" in texts


@pytest.mark.parametrize("flow", [evaluate, suite], ids=lambda flow: flow.name)
def test_a_flow_takes_the_options_as_they_are_declared(flow: Flow[..., Any]) -> None:
    shown = flow.parameters
    assert shown.required == ["config"]
    assert shown.properties.keys() == {*SourceOptions.model_fields, *GROUPS}
    fields = {name: shown.properties[name] for name in SourceOptions.model_fields}
    for name, group in GROUPS.items():
        reference = shown.properties[name]["$ref"].rpartition("/")[2]
        assert shown.properties[name]["default"] == group().model_dump(mode="json")
        assert shown.definitions[reference]["description"]
        fields |= shown.definitions[reference]["properties"]
    assert fields.keys() == FIELDS.keys()
    for name, field in FIELDS.items():
        assert fields[name]["description"] == field.description
        if name in shown.required:
            continue
        assert fields[name]["default"] == (list(field.default) if isinstance(field.default, tuple) else field.default)
        assert name in SourceOptions.model_fields or fields[name]["title"] == field.title


def test_the_form_offers_the_stages_to_refresh_and_checks_numbers() -> None:
    fields = suite.parameters.definitions["ExecutionOptions"]["properties"]
    assert "infer" in fields["refresh"]["items"]["enum"]
    assert {"type": "integer", "minimum": 1} in fields["concurrency"]["anyOf"]


def test_the_parameters_of_a_flow_run_stand_for_its_options() -> None:
    options = RunOptions.of(
        {
            "config": "suite:demo", "run_id": "first", "max_samples": 3, "sample_ids": ["a"], "model_path": "m",
            "overrides": ["a=1"], "refresh": ["infer"], "concurrency": 2, "resume": True, "only_errors": True,
        }
    )  # fmt: skip
    assert options_of(parameters_of(options)) == options
    assert options_of({"config": "mine.yaml"}) == RunOptions(config="mine.yaml")
    assert options_of({"config": "mine.yaml", "data": {"max_samples": 5}}).max_samples == 5


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("refresh", ["inferr"], "refresh: no stage 'inferr'. Stages: .*Did you mean 'infer'?"),
        ("max_samples", 0, "max_samples: Input should be greater than or equal to 1."),
        ("sample_ids", 5, "sample_ids: Input should be a valid tuple."),
        ("priority", 1, "priority: Extra inputs are not permitted."),
    ],
)
def test_a_value_that_does_not_fit_is_one_sentence(option: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RunOptions.of({"config": "mine.yaml", option: value})
