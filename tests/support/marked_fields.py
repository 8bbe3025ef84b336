"""Every field of a model and what it is marked as."""

from collections.abc import Iterator

from pydantic import BaseModel

from gage_eval.base.marks import mark_of
from gage_eval.base.stages import Stage


def walk_fields(model: type[BaseModel]) -> Iterator[tuple[str, str, Stage | None]]:
    """(field, mark, stage) of every field of a model class."""
    for name in model.model_fields:
        mark, stage = mark_of(model, name)
        yield name, mark, stage
