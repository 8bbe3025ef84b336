"""The section `against` of a task: the other answers of the pairs that its judges compare."""

from typing import Self

from pydantic import field_validator, model_validator

from gage_eval.base.field_paths import compile_path
from gage_eval.base.marks import identity, semantic
from gage_eval.config.base_model import ConfigModel


class AgainstConfig(ConfigModel):
    """Where the other answers are: in a stored run, those of another model, or in a field of the samples."""

    run: str | None = identity("judge", None, min_length=1)
    task: str | None = identity("judge", None, min_length=1)
    adapter: str | None = identity("support", None, min_length=1)
    field: str | None = semantic("judge", None, min_length=1)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(source is not None for source in (self.run, self.adapter, self.field)) != 1:
            raise ValueError("give one of 'run', 'adapter' and 'field': where the other answers are")
        if self.task is not None and self.run is None:
            raise ValueError("'task' is one of another run: give 'run', too")
        return self

    @field_validator("field")
    @classmethod
    def _is_a_field_of_samples(cls, value: str | None) -> str | None:
        if value is not None and (not all(value.split(".")) or compile_path(value).root != "sample"):
            raise ValueError("the other answer is a field of the sample, as metadata.baseline")
        return value
