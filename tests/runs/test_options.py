"""Options are declared once: command line, Python API and flows have the same names, texts, types and defaults."""

import inspect
import re
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any, get_args

import pytest
import typer
from annotated_types import Ge
from prefect import Flow
from prefect.utilities.callables import parameter_schema
from prefect.utilities.importtools import import_object
from prefect.utilities.schema_tools.validation import ValidationError as SchemaError
from prefect.utilities.schema_tools.validation import validate

import gage_eval
from flows.evaluate import evaluate
from flows.forms import FORMS, Engine, Form, in_words_of_forms, options_of, parameters_of, suite_config
from flows.suite import suite
from gage_eval.base.errors import InputError
from gage_eval.base.stages import Stage
from gage_eval.cli.main import app, main
from gage_eval.extend import registry
from gage_eval.local.deployments import all_deployments
from gage_eval.runs.options import ModelOptions, RunOptions
from gage_eval.runs.options_dict import TEXTS, TYPES, RunOptionsDict

FIELDS = RunOptions.model_fields
# Options of a resumed run, and what a caller of the API says by a mapping.
NOT_OF_A_NEW_RUN = {"text", "resume", "only_errors", "judge_only"}
MODELS = ModelOptions.model_fields.keys()
COMMANDS = {
    "run": FIELDS.keys() - NOT_OF_A_NEW_RUN,
    # A suite names its config and its model by options of its own.
    "suite": FIELDS.keys() - NOT_OF_A_NEW_RUN - {"config", "model_path"},
    "resume": {"store", "output_dir", "only_errors", "verify"},
    "plan": FIELDS.keys() - NOT_OF_A_NEW_RUN - {"run_id", "refresh", "verify"},
    "preview": FIELDS.keys()
    - NOT_OF_A_NEW_RUN
    - {"run_id", "output_dir", "concurrency", "refresh", "verify", "work_pool"},
    "validate": {"config", "data_dir", "model_path", "freshness", "overrides", *MODELS},
}
SPELLED = {
    "task_ids": "--task",
    "sample_ids": "--sample-id",
    "overrides": "--set",
    "data_dir": "--data",
    "judges": "--judge",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_the_options_as_they_are_declared(command: str) -> None:
    for module in ("runs", "plan", "inspect"):
        import_module(f"gage_eval.cli.{module}")
    group = typer.main.get_command(app)
    parameters = {parameter.name: parameter for parameter in group.commands[command].params}
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
    assert TYPES.keys() == FIELDS.keys()
    assert all(TEXTS.values())
    assert RunOptionsDict.__annotations__.keys() == FIELDS.keys() - NOT_OF_A_NEW_RUN - {"config"}
    texts = re.sub(r"\s+", " ", inspect.getdoc(gage_eval.run) or "")
    for name, field in FIELDS.items():
        wide = {tuple[str, ...]: Sequence[str], tuple[Stage, ...]: Sequence[str]}
        assert TYPES[name] == wide.get(field.annotation, field.annotation), name
        assert name in NOT_OF_A_NEW_RUN or f" {name}: {field.description}" in texts


def test_the_api_refuses_an_option_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="'max_samples'"):
        gage_eval.run("mine.yaml", max_sample=3)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="'resume'"):
        gage_eval.run("mine.yaml", resume=True)  # type: ignore[call-arg]


def test_the_forms_have_every_option_once_with_its_text_and_default() -> None:
    shown = {
        form.OPTIONS.get(name, name): (form.model_fields[name], field)
        for form in FORMS.values()
        for name, field in form.model_json_schema()["properties"].items()
    }
    # The name of the run is that of the flow run, except for one to resume.
    assert shown.keys() == FIELDS.keys() - {"config", "text", "run_id"}
    del shown["resume"]
    for name, (declared, field) in shown.items():
        assert field["description"] == FIELDS[name].description
        assert declared.default == FIELDS[name].default


@pytest.mark.parametrize("flow", [evaluate, suite], ids=lambda flow: flow.name)
def test_a_form_needs_no_raw_json(flow: Flow[..., Any]) -> None:
    shown = flow.parameters
    assert shown.properties.keys() > FORMS.keys()
    fields = [field for name, field in shown.properties.items() if name not in FORMS]
    for name in FORMS:
        card = shown.definitions[shown.properties[name]["$ref"].rpartition("/")[2]]
        assert card["description"]
        fields += card["properties"].values()
    for field in fields:
        assert field["description"]
        assert field["title"]
        plain = field["items"] if field["type"] == "array" else field
        assert plain["type"] in {"string", "integer", "boolean"}
        assert not {"anyOf", "oneOf", "allOf", "discriminator", "$ref"} & {*field, *plain}


def test_the_form_offers_choices_and_checks_values() -> None:
    shown = suite.parameters
    assert "gsm8k" in shown.properties["suite"]["enum"]
    assert "infer" in shown.definitions["RunForm"]["properties"]["refresh"]["items"]["enum"]
    assert shown.definitions["RunForm"]["properties"]["concurrency"]["minimum"] == 1
    assert shown.definitions["DataForm"]["properties"]["samples"]["minimum"] == 1
    engines = get_args(Engine)
    assert set(engines) == set(registry.backends.names()) - {"dummy", "replay", "custom_script"}
    assert shown.definitions["ModelForm"]["properties"]["engine"]["enum"] == list(engines)


@pytest.mark.parametrize(
    "parameters",
    [
        {"suite": "gsm9k"},
        {"suite": "gsm8k", "data": {"samples": 0}},
        {"suite": "gsm8k", "data": {"samples": "few"}},
        {"suite": "gsm8k", "model": {"endpoint": "my-server:8000"}},
        {"suite": "gsm8k", "model": {"engine": "vlm"}},
        {"suite": "gsm8k", "run": {"resume": "my run"}},
        {"suite": "gsm8k", "run": {"refresh": ["inferr"]}},
        {"suite": "gsm8k", "run": {"speed": 1}},
    ],
    ids=str,
)
def test_the_server_refuses_a_wrong_value_before_anything_starts(parameters: dict[str, Any]) -> None:
    schema = suite.parameters.model_dump_for_openapi()
    validate({"suite": "gsm8k", "model": {"endpoint": "http://h/v1"}}, schema, raise_on_error=True)
    with pytest.raises(SchemaError):
        validate(parameters, schema, raise_on_error=True)


def test_what_most_runs_need_comes_first_and_nothing_is_read_as_html() -> None:
    names = {name: list(form.model_fields) for name, form in FORMS.items()}
    assert [names["model"][:3], names["data"][:1], names["run"][:1]] == [
        ["name", "endpoint", "key_variable"], ["samples"], ["concurrency"]
    ]  # fmt: skip
    assert not [
        field for form in FORMS.values() for field in form.model_fields.values() if "<" in str(field.description)
    ]


def test_messages_name_the_fields_of_the_form_and_leave_commands_as_they_are() -> None:
    said = "name it with --model, and its server with --endpoint URL"
    assert in_words_of_forms(said) == "name it with Model › Name, and its server with Model › Endpoint URL"
    said = "Resume it: gage resume a --store s, or choose another --run-id."
    assert in_words_of_forms(said) == "Resume it: gage resume a --store s, or choose another Run Name."


@pytest.mark.parametrize(
    ("model", "fits"),
    [({"name": "m"}, True), ({"path": "m.gguf"}, True), ({"block": "b"}, True), ({}, False), (None, False),
     ({"work_pool": "h100"}, False)],
)  # fmt: skip
def test_the_form_of_a_suite_is_refused_without_a_model(model: dict[str, Any] | None, fits: bool) -> None:
    (deployment,) = [made for made in all_deployments(()) if made.name == "gsm8k"]
    # What `prefect deploy` makes of a file's entry, too.
    schema = parameter_schema(import_object(deployment.entrypoint)).model_dump_for_openapi()
    parameters = {"suite": "gsm8k"} | ({} if model is None else {"model": model})
    with nullcontext() if fits else pytest.raises(SchemaError):
        validate(parameters, schema, raise_on_error=True)


def test_a_run_of_a_suite_whose_overrides_name_the_model_is_one_of_its_config() -> None:
    flows = {
        name: parameters_of(RunOptions.of({"config": f"suite:{name}", **more}))[0]
        for name, more in {"gsm8k": {}, "demo": {}, "arc": {"model": "m"}}.items()
    }
    assert flows == {"gsm8k": "evaluate", "demo": "suite", "arc": "suite"}


def test_a_field_that_was_cleared_in_the_ui_is_not_given() -> None:
    cleared = {"name": "", "endpoint": "", "key_block": ""}
    assert FORMS["model"].model_validate(cleared) == FORMS["model"]()


def _options(flow: str, parameters: dict[str, Any]) -> RunOptions:
    """The options that a flow makes of its parameters."""
    forms: dict[str, Form] = {name: form.model_validate(parameters.get(name, {})) for name, form in FORMS.items()}
    if flow == "suite":
        return options_of(suite_config(parameters["suite"], parameters["version"]), **forms)
    return options_of(parameters["config"], parameters["text"], **forms)


@pytest.mark.parametrize(
    ("config", "flow", "text"),
    [("suite:demo", "suite", None), ("suite:demo@v1", "suite", None), ("mine.yaml", "evaluate", None),
     ("folder", "evaluate", "metrics: []")],
)  # fmt: skip
def test_the_parameters_of_a_flow_run_stand_for_its_options(config: str, flow: str, text: str | None) -> None:
    options = RunOptions.of(
        {
            "config": config, "text": text, "run_id": "first", "max_samples": 3, "shuffle_seed": 0,
            "sample_ids": ["a"], "model": "m", "endpoint": "http://h/v1", "engine": "vllm", "api_key_block": "key",
            "judges": ["j"], "judge_endpoint": "http://j/v1", "judge_api_key_env": "J", "model_path": "m",
            "overrides": ["a=1"], "refresh": ["infer"], "concurrency": 2, "resume": True, "only_errors": True,
            "store": "s3://b/p", "output_dir": "runs", "verify": True, "data_dir": "data",
        }
    )  # fmt: skip
    made = parameters_of(options)
    assert made[0] == flow
    assert _options(*made) == options
    assert made[1]["run"]["resume"] == "first"
    least = parameters_of(RunOptions.of({"config": config, "text": text}))
    assert _options(*least) == RunOptions.of({"config": config, "text": text})
    validate(
        least[1], {"suite": suite, "evaluate": evaluate}[flow].parameters.model_dump_for_openapi(), raise_on_error=True
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("refresh", ["inferr"], "refresh: no stage 'inferr'. Stages: .*Did you mean 'infer'?"),
        ("max_samples", 0, "max_samples: must be at least 1, not 0."),
        ("sample_ids", 5, "sample_ids: must be a list, not 5."),
        ("priority", 1, "priority: unknown key 'priority'. Keys here: model, endpoint, .*"),
        ("modell", "x", "modell: unknown key 'modell'. Did you mean 'model'?"),
    ],
)
def test_a_value_that_does_not_fit_is_one_sentence(option: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RunOptions.of({"config": "mine.yaml", option: value})
