"""Everything that a config can name, as JSON records: plug-ins of all kinds, suites and roles.

Also the datasets and prompts of the configs that come with the package.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from gage_eval.base.packaged import configs_dir
from gage_eval.config.files import read_config
from gage_eval.config.models import ROLE_SPELLINGS, RoleType
from gage_eval.config.rules import ROLE_OF_STEP
from gage_eval.config.suites.templates import SuiteInfo, list_suites
from gage_eval.config.yaml import lines
from gage_eval.extend import registry
from gage_eval.extend.registry import Plugin

_LONGEST_LINE = 80
# The list of a config, the key that names its entries, and what is shown of them.
_SECTIONS = {"datasets": ("dataset_id", "params"), "prompts": ("prompt_id", "template")}
_OF_ROLES: dict[RoleType, str] = {
    "dut_model": "The model under test.",
    "judge_model": "A model that judges answers; a verdict parser reads its text.",
    "user": "A simulated user, which talks with the model under test.",
    "support": "A model that writes something into the prompt before the model under test is asked.",
}


def kinds() -> list[str]:
    """The kinds of things that a config can name."""
    return [*sorted(registry.ALL), "datasets", "prompts", "roles", "suites"]


def entries(kind: str) -> list[dict[str, Any]]:
    """All entries of a kind: name, version or versions, summary; for a plug-in also its origin and parameters."""
    if kind == "suites":
        return [_suite(suite) for suite in list_suites()]
    if kind == "roles":
        return list(_roles())
    if kind in _SECTIONS:
        return list(_in_configs(kind))
    return [
        {
            "name": plugin.name,
            "version": plugin.version,
            "origin": plugin.origin,
            "summary": plugin.summary,
            "info": {
                **{key: _info(value) for key, value in plugin.info.items() if not callable(value)},
                **_parameters(plugin),
            },
        }
        for plugin in registry.ALL[kind]
    ]


def _suite(suite: SuiteInfo) -> dict[str, Any]:
    """A suite with the facts of its card."""
    card = suite.card
    return {
        "name": suite.name,
        "versions": list(suite.versions),
        "tasks": suite.tasks,
        "rows": None if card is None else card.rows,
        "metric": None if card is None else card.metric,
        "needs": [] if card is None else list(card.needs),
        "licence": None if card is None else card.licence,
        "download_bytes": None if card is None else card.download_bytes,
        "summary": suite.description,
        "info": {} if card is None else {**card.model_dump(mode="json"), "pinned": suite.pinned},
    }


def _roles() -> Iterator[dict[str, Any]]:
    """The values of ``role_type``, with the step that each carries out and its other spellings."""
    for role in get_args(RoleType):
        yield {
            "name": role,
            # A simulated user takes part in the inference.
            "step": next((step for step, of_step in ROLE_OF_STEP.items() if of_step == role), "inference"),
            "spellings": [spelling for spelling, known in ROLE_SPELLINGS.items() if known == role],
            "summary": _OF_ROLES[role],
        }


def _in_configs(kind: str) -> Iterator[dict[str, Any]]:
    """The datasets or prompts of pipelines and suites, each with its config."""
    key, shown = _SECTIONS[kind]
    for name, path in _shipped():
        root = lines.as_written(lines.parse(read_config(path), str(path)))
        for entry in _entries_of(root, kind, key):
            yield {"name": str(entry[key]), "config": name, "summary": _first_line(entry.get(shown))}


def _shipped() -> Iterator[tuple[str, Path]]:
    """The configs that come with the package, by the name under which a user finds them."""
    folder = configs_dir() / "pipelines"
    for path in sorted(folder.rglob("*.yaml")):
        yield f"pipelines/{path.relative_to(folder).as_posix()}", path
    for suite in list_suites():
        yield f"suite {suite.name}", suite.path


def _entries_of(value: Any, section: str, key: str) -> Iterator[dict[str, Any]]:
    """The entries with an id in every section of that name, at any depth of a template."""
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        if name == section and isinstance(inner, list):
            yield from (entry for entry in inner if isinstance(entry, dict) and entry.get(key) is not None)
        else:
            yield from _entries_of(inner, section, key)


def _first_line(value: Any) -> str:
    """The first line of a template, or where a dataset's data are."""
    if isinstance(value, dict):
        value = value.get("path") or value.get("origin")
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, dict):
        value = value.get("content")
    line = str(value or "").strip().partition("\n")[0]
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


def _parameters(plugin: Plugin[Any]) -> dict[str, Any]:
    """The parameters that a config can set, with their defaults; null without a default."""
    if plugin.kind not in ("metrics", "filters", "verdict_parsers", "preprocessors"):
        return {}
    # Positional parameters of a metric, filter or parser are its inputs, not settings.
    parameters = [
        parameter
        for parameter in inspect.signature(plugin.obj).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY or plugin.kind == "preprocessors"
    ]
    defaults = {item.name: None if item.default is item.empty else item.default for item in parameters}
    plain = (str, int, float, bool, type(None))
    return {"parameters": {name: value if isinstance(value, plain) else str(value) for name, value in defaults.items()}}


def _info(value: Any) -> Any:
    """What a plug-in declares, as JSON. For a config model: its fields and their descriptions."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        return {name: field.description for name, field in value.model_fields.items()}
    return value
