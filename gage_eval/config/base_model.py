"""The base of all models of configs."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from gage_eval.config.field_docs import TEXTS
from gage_eval.config.sugar import rename_aliases
from gage_eval.data.sample.rules import inside


def check_in_box(paths: Iterable[str]) -> None:
    """Refuse paths of a box that lead out of its working folder.

    Raises:
        ValueError: one of them does.
    """
    for path in paths:
        if not inside(path) or "\0" in path:
            raise ValueError(f"'{path}' is not a path below the working folder of the box")


class ConfigModel(BaseModel):
    """Base of all config models: strict keys and types, immutable, accepts older spellings of keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=(), defer_build=True)

    ALIASES: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for name, text in TEXTS.get(cls.__name__, {}).items():
            cls.model_fields[name].description = text

    @model_validator(mode="before")
    @classmethod
    def _accept_aliases(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        named = rename_aliases(data, cls.ALIASES)
        return {key: value for key, value in named.items() if value is not None or not cls._needs_value(key)}

    @classmethod
    def _needs_value(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        return field is not None and not field.is_required() and field.default is not None
