"""The other kinds of config files: a BuiltinTemplate, which holds an evaluation for others to run, and a RunConfig,
which runs one with its own values."""

from typing import Any, Literal, TypeAlias

from pydantic import Field, field_validator

from gage_eval.base.canonical import JsonValue
from gage_eval.base.marks import scheduling
from gage_eval.config.models import PARAMETER, ConfigModel, Metadata, PipelineConfig

ParameterType: TypeAlias = Literal["obj", "list", "str", "int", "float", "bool", "any"]

# The types that a parameter of each type takes, and what its value must be.
_TYPES: dict[ParameterType, tuple[tuple[type, ...], str]] = {
    "obj": ((dict,), "a mapping"),
    "list": ((list,), "a list"),
    "str": ((str,), "text"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "any": ((object,), "anything"),
}

# What a RunConfig leaves to its template.
LOGIC_SECTIONS = frozenset(PipelineConfig.model_fields) - {"api_version", "kind", "metadata"}


class TemplateMetadata(Metadata):
    """A template's name and origin."""

    digest: str | None = scheduling(None, description="digest of the definition, from `gage distill`")
    source_tasks: list[str] = scheduling([], description="tasks of the config that it was made from")
    monolithic: bool = scheduling(default=False, description="whether it holds several tasks that run together only")


class Parameter(ConfigModel):
    """A value of a template that a RunConfig sets."""

    id: str = Field(description="its name, as `runtime.datasets.mine`", pattern=PARAMETER)
    type: ParameterType = Field("any", description="obj, list, str, int, float, bool or any")
    default: JsonValue = Field(None, description="its value when the RunConfig sets none")
    description: str | None = Field(None, description="one sentence, a comment in RunConfigs")

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value for this parameter; None when nothing is."""
        allowed, words = _TYPES[self.type]
        fits = isinstance(value, allowed) and (not isinstance(value, bool) or self.type in ("bool", "any"))
        return None if value is None or fits else f"must be {words}."


class BuiltinTemplate(ConfigModel):
    """An evaluation with a name and a version."""

    api_version: Literal["gage/v1alpha1"] = "gage/v1alpha1"
    kind: Literal["BuiltinTemplate"]
    metadata: TemplateMetadata = Field(TemplateMetadata(), description="its name, version and digest")
    suite: dict[str, JsonValue] | None = Field(None, description="the card of a suite, as `gage list suites` shows it")
    parameters: list[Parameter] = Field([], description="values that a RunConfig sets")
    definition: dict[str, Any] = Field(description="the sections of a PipelineConfig")

    @field_validator("definition")
    @classmethod
    def _is_expanded(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in ("include", "defaults"):
            if name in value:
                raise ValueError(f"a template stands for itself and has no '{name}'; gage distill writes it out")
        return value


class RunConfig(ConfigModel):
    """A run of a template: which one, and the values that belong to this run."""

    api_version: Literal["gage/v1alpha1"] = "gage/v1alpha1"
    kind: Literal["RunConfig"]
    metadata: Metadata = Field(Metadata(), description="name and description of this run's config")
    base_task: str = Field(description="the template: builtin/NAME, NAME, or the path of its file", min_length=1)
    template_version: str | None = Field(None, description="its version")
    template_digest: str | None = Field(None, description="digest of its definition; an edited template is refused")
    runtime: dict[str, Any] = Field({}, description="values for its parameters, datasets, backends and tasks")
    template_snapshot: dict[str, Any] | None = Field(
        None, description="the definition when this file was made; names what changed in an edited template"
    )
