"""JSON Schema of a PipelineConfig, for editors that complete and check YAML."""

from typing import Any

from gage_eval.config import models

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
    definitions["DatasetConfig"]["required"].remove("loader")
    definitions["MetricConfig"]["required"].remove("implementation")
    definitions["StepConfig"]["properties"]["step"]["enum"] += list(models.STEP_SPELLINGS)
    definitions["RoleAdapterConfig"]["properties"]["role_type"]["enum"] += list(models.ROLE_SPELLINGS)
    definitions["Metric"] = {"anyOf": [{"$ref": "#/$defs/MetricConfig"}, *_METRIC_SUGAR]}
    definitions["Step"] = {"anyOf": [{"$ref": "#/$defs/StepConfig"}, {"type": "string"}]}
    _refer(schema["properties"]["metrics"], "Metric")
    _refer(definitions["TaskConfig"]["properties"]["metric_overrides"], "Metric")
    _refer(definitions["StepsConfig"]["properties"]["steps"], "Step")
    _refer(definitions["TaskConfig"]["properties"]["steps"]["anyOf"][0], "Step")
    return schema


def _refer(array: dict[str, Any], name: str) -> None:
    array["items"] = {"$ref": f"#/$defs/{name}"}
