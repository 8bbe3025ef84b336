"""JSON Schema of a PipelineConfig, for editors that complete and check YAML."""

from typing import Any

from pydantic import BaseModel

from gage_eval.config import models
from gage_eval.config.defaults import SECTIONS
from gage_eval.config.suites import kinds
from gage_eval.config.task_types import TASK_TYPES

_METRIC_SUGAR: list[dict[str, Any]] = [
    {"type": "string", "description": "a metric's name, or name(key='value', …)"},
    {"type": "object", "minProperties": 1, "maxProperties": 1, "description": "name: {parameter: value}"},
]


def config_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of what `load_config` accepts, short forms and older spellings included."""
    schema = models.PipelineConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    definitions = schema["$defs"]
    for name, definition in definitions.items():
        spec = getattr(models, name)
        properties = definition["properties"]
        for alias, field in spec.ALIASES.items():
            properties[alias] = {**properties[field], "deprecated": True}
    del definitions["DatasetConfig"]["required"]
    definitions["DatasetConfig"]["properties"]["task_type"] = {
        "enum": list(TASK_TYPES),
        "description": "chooses the preprocessor, the prompt and the metric where they are unset",
        "x-mark": "semantic",
    }
    for name in ("BackendEntry", "InlineBackend"):
        _or_block(definitions[name])
    definitions["MetricConfig"]["required"].remove("implementation")
    definitions["StepConfig"]["properties"]["step"]["enum"] += list(models.STEP_SPELLINGS)
    definitions["RoleAdapterConfig"]["properties"]["role_type"]["enum"] += list(models.ROLE_SPELLINGS)
    definitions["Metric"] = {"anyOf": [{"$ref": "#/$defs/MetricConfig"}, *_METRIC_SUGAR]}
    definitions["Step"] = {"anyOf": [{"$ref": "#/$defs/StepConfig"}, {"type": "string"}]}
    definitions["Dataset"] = {
        "anyOf": [{"$ref": "#/$defs/DatasetConfig"}, {"type": "string", "description": "a data file"}]
    }
    defaults = {name: {"type": "object"} for name in SECTIONS}
    schema["properties"]["include"] = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "other files of the config, below its folder; its own values count before theirs",
        "x-mark": "nested",
    }
    schema["properties"]["defaults"] = {
        "type": "object",
        "properties": defaults,
        "additionalProperties": False,
        "description": "values for every item of a section that does not set them",
        "x-mark": "nested",
    }
    _refer(schema["properties"]["datasets"], "Dataset")
    _refer(schema["properties"]["metrics"], "Metric")
    _refer(definitions["TaskConfig"]["properties"]["metric_overrides"], "Metric")
    _refer(definitions["StepsConfig"]["properties"]["steps"], "Step")
    _refer(definitions["TaskConfig"]["properties"]["steps"]["anyOf"][0], "Step")
    return schema


def kind_schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a ``RunConfig`` or a ``BuiltinTemplate``; of a template's definition only that it is a mapping."""
    models_of: dict[str, type[BaseModel]] = {"RunConfig": kinds.RunConfig, "BuiltinTemplate": kinds.BuiltinTemplate}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **models_of[kind].model_json_schema()}


def _or_block(backend: dict[str, Any]) -> None:
    """A backend has a type, or names a block that gives it one."""
    del backend["required"]
    backend["oneOf"] = [{"required": ["type"]}, {"required": ["block"]}]
    backend["properties"]["block"] = {
        "type": "string",
        "minLength": 1,
        "description": "name of a Prefect block that gives type and config",
        "x-mark": "identity",
    }


def _refer(array: dict[str, Any], name: str) -> None:
    array["items"] = {"$ref": f"#/$defs/{name}"}
