"""A literal key in a form is refused by the form's schema, and one that a run refuses does not stay at the server."""

from typing import Any

import pytest
from prefect.utilities.schema_tools.validation import is_valid

from flows.evaluate import evaluate
from flows.forms import ModelForm, without_secrets
from gage_eval.base.errors import InputError
from gage_eval.config.secrets import MASK
from gage_eval.runs import RunOptions

SHAPED = "sk-" + "a1" * 12
LITERALS = (SHAPED, "hf_" + "aBcD" * 8, "0123456789abcdef", "abc123def456abc1", "Bearer x")


def accepts(**cards: Any) -> bool:
    schema = evaluate.parameters.model_dump_for_openapi()
    return is_valid({"config": "mine.yaml", **cards}, schema)


@pytest.mark.parametrize("literal", LITERALS)
def test_the_schema_of_the_form_refuses_a_key_in_place_of_a_variable(literal: str) -> None:
    assert not accepts(model={"key_variable": literal})
    assert not accepts(judge={"key_variable": literal})
    with pytest.raises(InputError, match="--api-key-env"):
        ModelForm.of(RunOptions(config="c", api_key_env=literal).model_dump())


def test_the_schema_of_the_form_refuses_a_well_known_key_in_every_text() -> None:
    assert not accepts(model={"key_block": SHAPED})
    assert not accepts(model={"name": SHAPED})
    assert not accepts(model={"key_variable": "AKIA" + "1A" * 8})
    assert not accepts(run={"overrides": [f"backends.0.config.api_key={SHAPED}"]})
    assert not accepts(text=f"api_key: {SHAPED}")


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "KEY2", "_KEY", "my_key", "key2", ""])
def test_the_schema_of_the_form_takes_the_name_of_a_variable(name: str) -> None:
    assert accepts(model={"key_variable": name}, judge={"key_variable": name, "names": ["a"]})
    assert accepts(model={"key_variable": None, "name": None})


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [
        ({"model": {"key_variable": "abc123def456abc1"}}, {"model": {"key_variable": MASK}}),
        ({"model": {"key_block": SHAPED, "name": "m"}}, {"model": {"key_block": MASK, "name": "m"}}),
        ({"text": "backends: [{config: {api_key: hunter2}}]"}, {"text": MASK}),
        ({"text": f"not: [YAML {SHAPED}"}, {"text": f"not: [YAML {MASK}"}),
        ({"run": {"overrides": ["backends.0.config.api_key=x1", "a=1"]}}, {"run": {"overrides": [MASK, "a=1"]}}),
        ({"text": "backends: [{config: {api_key: env:KEY}}]"}, None),
        ({"model": {"key_variable": "KEY", "key_block": "mine"}, "storage": {"store": "s3://b/p"}}, None),
    ],
)
def test_a_literal_that_a_run_refuses_is_masked_and_nothing_else_is(
    parameters: dict[str, Any], kept: dict[str, Any] | None
) -> None:
    assert without_secrets(parameters) == (parameters if kept is None else kept)
