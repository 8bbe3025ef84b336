"""Which fields of a config determine results, and from which stage on.

Every field of every config model and of the settings carries one mark:

* ``semantic(stage, …)``: the value goes into the key of ``stage``; a change computes that stage again.
* ``identity(stage, …)``: the value names something (a file, a checkpoint). What it points to goes into the key,
  the text does not.
* ``scheduling(…)``: how, where and how fast, or a text that is only shown; never what. It goes into no key.
* ``nested(…)``: a container of models whose own fields carry the marks.

A test walks all models, changes one field at a time and asserts which stages computed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from gage_eval.base.canonical import JsonValue
from gage_eval.base.stages import Stage

_MARK = "x-mark"
_STAGE = "x-stage"


def semantic(stage: Stage, default: Any = ..., **field: Any) -> Any:
    """A field whose value determines results from ``stage`` on."""
    return Field(default, json_schema_extra={_MARK: "semantic", _STAGE: stage}, **field)


def identity(stage: Stage, default: Any = ..., **field: Any) -> Any:
    """A field that names something; the key of ``stage`` holds the identity of what it names."""
    return Field(default, json_schema_extra={_MARK: "identity", _STAGE: stage}, **field)


def scheduling(default: Any = ..., **field: Any) -> Any:
    """A field that determines no result."""
    return Field(default, json_schema_extra={_MARK: "scheduling"}, **field)


def nested(default: Any = ..., **field: Any) -> Any:
    """A field that holds models (one, a list, or a mapping) with their own marks."""
    return Field(default, json_schema_extra={_MARK: "nested"}, **field)


def mark_of(model: type[BaseModel], field: str) -> tuple[str, Stage | None]:
    """(mark, stage) of a field.

    Raises:
        TypeError: the field carries no mark.
    """
    extra = model.model_fields[field].json_schema_extra
    if not isinstance(extra, dict) or _MARK not in extra:
        raise TypeError(f"{model.__name__}.{field} carries no mark: semantic, identity, scheduling or nested")
    stage = extra.get(_STAGE)
    return str(extra[_MARK]), stage  # type: ignore[return-value]


def semantic_values(model: BaseModel, stage: Stage) -> dict[str, JsonValue]:
    """The values of a model that belong in the key of ``stage``.

    Keys a model passes through undeclared (``extra="allow"``) count for the stage the model names in its
    ``PASS_THROUGH`` class variable (None: for no stage).
    """
    out: dict[str, JsonValue] = {}
    for name in type(model).model_fields:
        mark, marked_stage = mark_of(type(model), name)
        value = getattr(model, name)
        if mark == "semantic" and marked_stage == stage:
            out[name] = _plain(value)
        elif mark == "nested":
            inner = _nested(value, stage)
            if inner:
                out[name] = inner
    if model.model_extra and getattr(type(model), "PASS_THROUGH", None) == stage:
        out.update({name: _plain(value) for name, value in model.model_extra.items()})
    return out


def _plain(value: Any) -> JsonValue:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value


def _nested(value: Any, stage: Stage) -> JsonValue:
    if isinstance(value, BaseModel):
        return semantic_values(value, stage)
    if isinstance(value, Mapping):
        return {str(key): _nested(item, stage) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_nested(item, stage) for item in value]
    return value
