"""Which suite a config is, and whether its logic was changed on the way."""

from typing import Any

from gage_eval.base.marks import mark_of
from gage_eval.config.document import Document, value_at
from gage_eval.config.models import PipelineConfig
from gage_eval.config.problems import Loc, path_text
from gage_eval.config.suites.card import SuiteIdentity
from gage_eval.config.suites.template_file import Template
from gage_eval.config.suites.template_values import Filler
from gage_eval.config.validation_messages import model_at
from gage_eval.config.yaml.lines import as_written

_LOGIC = frozenset({"datasets", "prompts", "metrics", "tasks", "groups", "builtin", "custom"})
# How many rows are asked shows as n; which adapter does a step is about the model.
_NOT_LOGIC = frozenset({"max_samples", "limit", "adapter_id", "judge_adapter_id", "support_adapter_id"})
_OF_ADAPTERS = frozenset(
    {"prompt_id", "prompt_params", "params", "sampling_params", "class_path", "verdict_parser", "tools", "tool_rounds"}
    | {"embeds", "verdict", "verdict_labels", "verdict_reasoning", "verdict_retries", "mcp_servers", "limits", "agent"}
    | {"box", "simulator"}
)


def suite_identity(document: Document, template: Template) -> SuiteIdentity:
    """Which suite a config is.

    Args:
        document: the config after the command line and the environment.
        template: what it is or runs.
    """
    released = as_written(Filler(template.definition, template.model.parameters, template.source).filled(None))
    modified = tuple(dict.fromkeys(_modified(document, released)))
    attacks = None if document.card is None or any(map(_changes_tests, modified)) else document.card.attacks
    return SuiteIdentity(
        name=template.name,
        version=template.model.metadata.version or "",
        digest=template.digest,
        modified=modified,
        metric=None if document.card is None else document.card.metric,
        attacks=None if attacks is None else (attacks.passed, attacks.tried),
    )


def _changes_tests(path: str) -> bool:
    """Whether a changed value changes how programs are tested, except by another mode."""
    return path.startswith("datasets") or (".execution" in path and not path.endswith(".execution.mode"))


def _modified(document: Document, released: Any) -> list[str]:
    changed = []
    for loc, origin in document.set_by("command line", "environment", "file"):
        # What chooses the model or the rows is not the suite's logic.
        chosen = origin.kind != "command line" or origin.source.startswith("--set")
        if chosen and is_logic(loc) and document.value(loc) != value_at(released, loc):
            changed.append(loc)
    outer = [
        loc for loc in changed if not any(loc[: len(outer)] == outer for outer in changed if len(outer) < len(loc))
    ]
    return [path_text(loc) for loc in outer]


def is_logic(loc: Loc) -> bool:
    """Whether a value determines what a suite measures, whatever model it is asked of."""
    section, *rest = loc
    if section == "backends":
        return "default_params" in rest
    if section == "role_adapters":
        if not any(part in _OF_ADAPTERS for part in rest):
            return False
    elif section not in _LOGIC or any(part in _NOT_LOGIC for part in rest):
        return False
    if section == "groups":
        return rest[-1:] != ["description"]
    for end in range(1, len(loc) + 1):
        model, field = model_at(PipelineConfig, loc[: end - 1]), loc[end - 1]
        if model is not None and isinstance(field, str) and field in model.model_fields:
            mark, _ = mark_of(model, field)
            if mark != "nested":
                return mark != "scheduling"
    return True
