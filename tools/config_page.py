"""docs/config-reference.md, made from the models of configs and of backends.

python -m tools.config_page    write the page
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gage_eval.base.marks import mark_of
from gage_eval.config import models
from gage_eval.config.defaults import SECTIONS
from gage_eval.config.rules import FILLING, NAMING
from gage_eval.config.suites import kinds
from gage_eval.config.task_types import TASK_TYPES
from gage_eval.extend import registry
from tools.markdown import builtin, cell, plain, type_name

PAGE = Path(__file__).resolve().parents[1] / "docs" / "config-reference.md"

_HEAD = """# Reference: configuration

Made from the code by `python -m tools.config_page`; change a text there, not on this page.

[The config file](config.md) explains how to write one. Here is every key with its type and default. The last column
says what a change computes again: results from that stage on, or nothing (–) where a value only says how fast, where,
or what is shown. Keys of older configs in parentheses mean the same.

## Rules

A short config is filled in by these rules, in this order, where it says nothing. `gage plan --expanded CONFIG` prints
the whole config with the rule, file, option or variable behind each value.

"""

# The sections in the order of a file, with the models below each.
_SECTIONS: tuple[tuple[str, tuple[type[models.ConfigModel], ...]], ...] = (
    ("metadata", (models.Metadata,)),
    ("datasets[]", (models.DatasetConfig,)),
    ("datasets[].params", (models.DatasetParams,)),
    ("backends[]", (models.BackendEntry,)),
    ("role_adapters[]", (models.RoleAdapterConfig,)),
    ("role_adapters[].resource_requirement", (models.ResourceRequirement,)),
    ("prompts[]", (models.PromptConfig,)),
    ("prompts[].template[]", (models.PromptMessage,)),
    ("metrics[]", (models.MetricConfig,)),
    ("tasks[]", (models.TaskConfig,)),
    ("tasks[].few_shot", (models.FewShotConfig,)),
    ("tasks[].parse_schema[]", (models.ParseFieldConfig,)),
    ("tasks[].execution", (models.ExecutionConfig,)),
    ("tasks[].execution.limits", (models.ExecutionLimitsConfig,)),
    ("tasks[].labels", (models.LabelsConfig,)),
    ("tasks[].steps[]", (models.StepConfig,)),
    ("custom, builtin", (models.StepsConfig,)),
    ("groups[]", (models.GroupConfig,)),
    ("limits", (models.LimitsConfig,)),
    ("observability", (models.ObservabilityConfig,)),
    ("observability.sinks[]", (models.SinkConfig,)),
    ("observability.sinks[].params", (models.SinkParams,)),
)


def page() -> str:
    """The page as it should be."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "| rule | what it does |"
    yield "|---|---|"
    for rule in NAMING:
        yield f"| `{rule.name}` | {rule.summary} |"
    yield "| `task-type` | `task_type` of a dataset chooses what the table below says. |"
    for rule in FILLING:
        yield f"| `{rule.name}` | {rule.summary} |"
    yield ""
    yield "## Task types"
    yield ""
    yield "`task_type` of a dataset fills in the preprocessor, its options and the metric, each where it is unset."
    yield ""
    yield "| task_type | preprocess | preprocess_kwargs | metric |"
    yield "|---|---|---|---|"
    for name, task_type in TASK_TYPES.items():
        kwargs = ", ".join(f"{key}: {value}" for key, value in task_type.kwargs.items()) or "–"
        metric = f"`{task_type.metric}`" if task_type.metric else "–"
        yield f"| `{name}` | `{task_type.preprocess}` | {cell(kwargs)} | {metric} |"
    yield ""
    yield "## The file"
    yield ""
    yield from _table(models.PipelineConfig)
    yield f"| `include` | file or list of files | – | Other files of the config, below its folder. | {_NOT_SAID} |"
    sections = ", ".join(f"`{name}`" for name in SECTIONS)
    yield f"| `defaults` | mapping | – | Values for every item of a section: {sections}. | {_NOT_SAID} |"
    for title, shown in _SECTIONS:
        yield ""
        yield f"## {title}"
        yield ""
        for model in shown:
            yield from _table(model)
    yield ""
    yield "## backends[].config"
    for plugin in builtin(registry.backends):
        yield ""
        yield f"### {plugin.name}"
        yield ""
        yield from _table(plugin.info["config"])
    yield ""
    yield "## RunConfig"
    yield ""
    yield from _table(kinds.RunConfig)
    yield ""
    yield "## BuiltinTemplate"
    yield ""
    yield from _table(kinds.BuiltinTemplate)
    yield ""
    yield "### metadata"
    yield ""
    yield from _table(kinds.TemplateMetadata)
    yield ""
    yield "### parameters[]"
    yield ""
    yield from _table(kinds.Parameter)


_NOT_SAID = "what it brings"


def _table(model: type[BaseModel]) -> Iterator[str]:
    yield "| key | type | default | meaning | computes again from |"
    yield "|---|---|---|---|---|"
    aliases: dict[str, str] = getattr(model, "ALIASES", {})
    for name, field in model.model_fields.items():
        others = [alias for alias, meant in aliases.items() if meant == name]
        key = f"`{name}`" + (f" ({', '.join(f'`{alias}`' for alias in others)})" if others else "")
        text = cell(field.description or "")
        yield f"| {key} | {cell(type_name(field.annotation))} | {_default(field)} | {text} | {_stage(model, name)} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value: Any = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ([], {}, ()):
        return "–"
    return f"`{cell(plain(value))}`"


def _stage(model: type[BaseModel], name: str) -> str:
    try:
        mark, stage = mark_of(model, name)
    except TypeError:
        return "–"
    return "its keys" if mark == "nested" else f"`{stage}`" if stage else "–"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
