"""Pydantic's errors as sentences for the author of a YAML file."""

import re
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from gage_eval.base.errors import closest
from gage_eval.config import models
from gage_eval.config.problems import ConfigProblem, Loc
from gage_eval.config.secrets import is_secret_name, scrub
from gage_eval.config.suites.card import LINE

_UNION_TAGS = frozenset({"text", "messages"})
_ALIAS_OF: dict[str, str] = {
    name: alias
    for spec in vars(models).values()
    if isinstance(spec, type) and issubclass(spec, models.ConfigModel)
    for alias, name in spec.ALIASES.items()
}


def plain_words(error: ValidationError, data: Any, model: type[BaseModel], prefix: Loc = ()) -> list[ConfigProblem]:
    """Every mistake of a validation as one sentence.

    Args:
        error: what pydantic raised.
        data: the validated data, to show the author's spelling of keys.
        model: the model it was validated against, for the names of its keys.
        prefix: location of ``data`` in the document.
    """
    out = []
    for item in error.errors(include_url=False):
        loc = tuple(item["loc"])
        written = as_written(loc, data)
        kind = str(item["type"])
        if kind == "missing":
            out.append(ConfigProblem((*prefix, *written[:-1]), f"'{written[-1]}' is missing."))
            continue
        if kind == "extra_forbidden":
            out.append(ConfigProblem((*prefix, *written), _unknown_key(str(loc[-1]), model_at(model, loc[:-1]))))
            continue
        shown = _shown(item["input"], (*prefix, *written))
        out.append(ConfigProblem((*prefix, *written), _message(kind, item.get("ctx", {}), shown, str(item["msg"]))))
    return out


def model_at(model: type[BaseModel] | None, loc: Loc) -> type[BaseModel] | None:
    """The model of the mapping at a location; None for a mapping with free keys."""
    for part in loc:
        if model is None:
            return None
        if isinstance(part, int) or part in _UNION_TAGS:
            continue
        field = model.model_fields.get(getattr(model, "ALIASES", {}).get(part, part))
        model = None if field is None else _model_in(field.annotation)
    return model


def spellings_of(model: type[BaseModel]) -> list[tuple[str, ...]]:
    """The names of each field of a model: its own name and its aliases."""
    aliases: dict[str, str] = getattr(model, "ALIASES", {})
    out = []
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        choices = getattr(alias, "choices", [alias] if isinstance(alias, str) else [])
        others = [*(other for other, meant in aliases.items() if meant == name), *choices]
        out.append(tuple(dict.fromkeys([name, *(other for other in others if isinstance(other, str))])))
    return out


def allowed_words(context: Mapping[str, Any]) -> list[str]:
    """The words that the context of a ``literal_error`` allows; none for other errors."""
    return re.findall(r"'([^']*)'", str(context.get("expected", "")))


def describe(value: Any) -> str:
    """A value in a message: short, without secrets."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        text = str(scrub(value))
        return repr(text if len(text) <= 60 else text[:57] + "…")
    return "a list" if isinstance(value, list | tuple) else "a mapping"


def _shown(value: Any, loc: Loc) -> str:
    if any(isinstance(part, str) and is_secret_name(part, connection=True) for part in loc):
        return "what is there"
    return describe(value)


def _message(kind: str, context: Mapping[str, Any], shown: str, fallback: str) -> str:
    if kind == "value_error":
        return _sentence(str(context["error"]))
    if kind == "literal_error":
        allowed = allowed_words(context)
        if len(allowed) == 1:
            return f"must be {allowed[0]}, not {shown}."
        return f"must be one of {', '.join(allowed)}, not {shown}.{closest(shown.strip(chr(39)), allowed)}"
    if kind in _TYPES:
        hint = " Put it in quotes." if kind == "string_type" and not shown.startswith(("a ", "nothing")) else ""
        return f"must be {_TYPES[kind]}, not {shown}.{hint}"
    if kind in _BOUNDS:
        word, key = _BOUNDS[kind]
        return f"must be {word} {context[key]}, not {shown}."
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], _OTHER_PATTERN).format(shown, context["pattern"])
    if kind in _LENGTHS:
        return _length(kind, context, shown)
    return _sentence(fallback[:1].lower() + fallback[1:])


_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_LENGTHS = frozenset({"string_too_long", "string_too_short", "too_long", "too_short"})
_NO_ID = "{} cannot be an id: letters, digits and . _ - + @ only, at most 128, beginning with a letter or digit."
_PATTERNS = {
    models.ID: _NO_ID,
    models.FIELD: "{} cannot be a field: letters, digits and _ only, beginning with a letter or _.",
    models.PARAMETER: "{} cannot be a parameter: write names with dots between, as runtime.datasets.mine.",
    LINE: "must be one line, not {}.",
}
_OTHER_PATTERN = "must match {1}, not {0}."


def _length(kind: str, context: Mapping[str, Any], shown: str) -> str:
    if kind.endswith("short"):
        return "must not be empty." if context["min_length"] == 1 else f"needs {context['min_length']} or more."
    most = context["max_length"]
    if kind == "string_too_long":
        return _NO_ID.format(shown) if most == models.LONGEST_ID else f"must have at most {most} characters."
    return f"must have at most {most}." if most else "nothing reads this section any more; remove it."


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else text + "."


def _unknown_key(key: str, model: type[BaseModel] | None) -> str:
    known = [] if model is None else list(model.model_fields)
    near = closest(key, known)
    return f"unknown key '{key}'.{near}" if near else f"unknown key '{key}'. Keys here: {', '.join(known)}."


def as_written(loc: Loc, data: Any) -> Loc:
    """A location as the author spelled it: without union tags, with aliases as used."""
    out: list[str | int] = []
    here = data
    for part in loc:
        if isinstance(here, Mapping):
            written = part
            if part not in here and _ALIAS_OF.get(str(part)) in here:
                written = _ALIAS_OF[str(part)]
            out.append(written)
            here = here.get(written)
        elif isinstance(part, int):
            out.append(part)
            here = here[part] if isinstance(here, list) and part < len(here) else None
        elif part not in _UNION_TAGS:
            out.append(part)
    return tuple(out)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in typing.get_args(annotation):
        model = _model_in(inner)
        if model is not None:
            return model
    return None
