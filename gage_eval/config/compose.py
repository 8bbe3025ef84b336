"""The pass that assembles the tree of one pipeline from a file and its includes or template.

It works on trees before placeholders are filled in, so that each value keeps its file and line and the run's record can
keep the whole config with its placeholders.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gage_eval.base.errors import ConfigError, Problem
from gage_eval.config.include import with_includes
from gage_eval.config.yaml import lines
from gage_eval.config.yaml.lines import Mapping, Node
from gage_eval.config.yaml.nodes import child, node_of, scalars, text_of, with_items

if TYPE_CHECKING:
    from gage_eval.config.suites.template_file import Template

# The models of templates and RunConfigs are built only for such files, so that other runs start faster.


@dataclass(frozen=True)
class ConfigTree:
    """A config as one tree.

    Attributes:
        node: the tree of a PipelineConfig, or of a BuiltinTemplate.
        templates: the template files that were read, as errors name them.
        alone: whether it is the file itself, with nothing merged into it.
        warnings: things that work but are probably not intended.
        problems: mistakes in a template, outside of its definition.
        card: the facts of the suite that a RunConfig runs.
        template: what the config is or runs.
        files: the files that it includes, and the file of the template that it runs.
    """

    node: Node
    templates: frozenset[str] = frozenset()
    alone: bool = True
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    card: dict[str, Any] | None = None
    template: "Template | None" = None
    files: tuple[Path, ...] = ()


# Top-level keys that only the config of another tool has, all of a group together.
_OTHER_TOOLS = {
    "a task of lm-eval": (("doc_to_text",), ("doc_to_target",), ("output_type",)),
    "a config of promptfoo": (("providers", "prompts"), ("providers", "tests")),
    "a config of llm-eval": (("judge_model_path",), ("model_path", "task_name")),
}


def _refuse_other_tools(text: str, source: str) -> None:
    """Say in one sentence whose config it is, in place of one problem for each of its keys."""
    keys = {*re.findall(r"^(\w+):", text, re.MULTILINE)}
    for name, groups in _OTHER_TOOLS.items():
        if any(keys.issuperset(group) for group in groups):
            if name == "a task of lm-eval":
                message = f"this is {name}. Run it: gage suite lm-eval:{source}."
                raise ConfigError(source, [Problem("", message)])
            message = (
                f"this is {name}. Write a config for its data with: gage new --data FILE. Stored answers can be scored "
                "with a 'replay' backend (docs/older-configs.md)."
            )
            raise ConfigError(source, [Problem("", message)])


def compose(text: str, source: str, folder: Path) -> ConfigTree:
    """Put a config together.

    Args:
        text: the file.
        source: its name in errors.
        folder: the folder that its relative paths start from.

    Raises:
        ConfigError: it is not YAML or another tool's config, or an include or a template cannot be used.
    """
    _refuse_other_tools(text, source)
    node = lines.parse(text, source)
    kind = text_of(child(node, "kind"))
    if kind == "RunConfig" and isinstance(node, Mapping):
        from gage_eval.config.suites.frozen import released_file
        from gage_eval.config.suites.run_config import compiled

        pipeline, template, warnings = compiled(node, source, folder)
        head = {"api_version": node_of("gage/v1alpha1", source), "kind": node_of("PipelineConfig", source)}
        whole = replace(pipeline, items={**head, **pipeline.items}, lines={**dict.fromkeys(head, 1), **pipeline.lines})
        return ConfigTree(
            whole,
            frozenset({template.source}),
            alone=False,
            warnings=tuple(warnings),
            card=template.model.suite,
            template=template,
            files=() if template.path is None else (template.path, released_file(template.path)),
        )
    if kind == "BuiltinTemplate" and isinstance(node, Mapping):
        return _template(node, source, folder)
    whole_config, included = with_includes(node, source, folder)
    return ConfigTree(whole_config, alone=whole_config is node, files=included)


def _template(node: Mapping, source: str, folder: Path) -> ConfigTree:
    """A template that is run directly, with its parameters' defaults."""
    from gage_eval.config.suites.template_file import parse_template
    from gage_eval.config.suites.template_values import Filler

    if not isinstance(child(node, "definition"), Mapping):
        return ConfigTree(node, frozenset({source}))
    try:
        template = parse_template(node, source, folder=folder)
    except ConfigError as error:
        if any("${runtime." in scalar.text for _, scalar in scalars(node)):
            raise
        # Its pipeline is checked too, so that all mistakes are reported together.
        return ConfigTree(node, frozenset({source}), problems=error.problems)
    filled = Filler(template.definition, template.model.parameters, source).filled(None)
    return ConfigTree(with_items(node, {"definition": filled}), frozenset({source}), template=template)
