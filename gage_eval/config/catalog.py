"""What a config can name: plug-ins of all kinds and suites, as JSON records for lists and forms."""

import inspect
from typing import Any

from pydantic import BaseModel

from gage_eval import registry
from gage_eval.config.templates import SuiteInfo, list_suites
from gage_eval.registry import Plugin


def kinds() -> list[str]:
    """The kinds of things that a config can name."""
    return [*sorted(registry.ALL), "suites"]


def entries(kind: str) -> list[dict[str, Any]]:
    """All entries of a kind: name, version or versions, summary; for a plug-in also its origin and parameters."""
    if kind == "suites":
        return [_suite(suite) for suite in list_suites()]
    return [
        {
            "name": plugin.name,
            "version": plugin.version,
            "origin": plugin.origin,
            "summary": plugin.summary,
            "info": {**{key: _info(value) for key, value in plugin.info.items()}, **_parameters(plugin)},
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
    defaults = {one.name: None if one.default is one.empty else one.default for one in parameters}
    plain = (str, int, float, bool, type(None))
    return {"parameters": {name: value if isinstance(value, plain) else str(value) for name, value in defaults.items()}}


def _info(value: Any) -> Any:
    """What a plug-in declares, as JSON. For a config model: its fields and their descriptions."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        return {name: field.description for name, field in value.model_fields.items()}
    return value
