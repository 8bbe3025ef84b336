"""The published schema describes what the loader accepts."""

from typing import Any

import pytest

from gage_eval.base.canonical import canonical_json
from gage_eval.config.schema import config_schema


def definition(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = config_schema()["$defs"][name]
    return schema


def test_it_is_json_and_the_same_every_time() -> None:
    assert canonical_json(config_schema()) == canonical_json(config_schema())
    assert config_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_keys_are_strict_but_for_loaders() -> None:
    assert config_schema()["additionalProperties"] is False
    assert definition("TaskConfig")["additionalProperties"] is False
    assert definition("DatasetParams")["additionalProperties"] is True


@pytest.mark.parametrize(
    ("spec", "key"),
    [("TaskConfig", "epochs"), ("TaskConfig", "generation_params"), ("DatasetParams", "shuffle_seed")],
)
def test_older_spellings_are_known_and_marked(spec: str, key: str) -> None:
    assert definition(spec)["properties"][key]["deprecated"] is True


def test_what_has_a_default_is_not_required() -> None:
    assert "required" not in definition("DatasetConfig")
    assert definition("BackendEntry")["oneOf"] == [{"required": ["type"]}, {"required": ["block"]}]
    assert definition("MetricConfig")["required"] == ["metric_id"]


def test_a_short_config_fits_and_a_misspelled_one_does_not() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    short = {
        "include": "base.yaml",
        "defaults": {"tasks": {"max_samples": 5}},
        "datasets": ["mine.jsonl", {"task_type": "short-answer", "params": {"path": "other.jsonl"}}],
        "backends": [{"type": "dummy"}],
    }
    jsonschema.validate(short, config_schema())
    jsonschema.validate({**short, "backends": [{"block": "team"}]}, config_schema())
    for wrong in (
        {"backends": [{}]},
        {"backends": [{"type": "dummy", "block": "team"}]},
        {"defaults": {"task": {}}},
        {"datasets": [{"task_type": "other"}]},
        {"includes": "a"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**short, **wrong}, config_schema())


def test_short_forms_are_described() -> None:
    schema = config_schema()
    assert schema["properties"]["metrics"]["items"] == {"$ref": "#/$defs/Metric"}
    assert {"type": "string"} in definition("Step")["anyOf"]
    assert "infer" in definition("StepConfig")["properties"]["step"]["enum"]


def test_every_field_shows_its_mark() -> None:
    for name, spec in config_schema()["$defs"].items():
        for key, field in spec.get("properties", {}).items():
            assert field["x-mark"] in ("semantic", "identity", "scheduling", "nested"), f"{name}.{key}"
