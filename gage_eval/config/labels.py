"""The section `labels` of a task: what people said of answers that a judge judges, too."""

from typing import Self

from pydantic import model_validator

from gage_eval.base.marks import identity, semantic
from gage_eval.config.base_model import ConfigModel


class LabelsConfig(ConfigModel):
    """People's labels of some answers, which show how far the judge can be trusted."""

    path: str | None = identity("report", None, min_length=1)
    field: str | None = semantic("report", None, min_length=1)
    metric: str | None = semantic("report", None, min_length=1)
    scale: list[float] | None = semantic("report", None, min_length=2, max_length=2)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.field is None):
            raise ValueError("labels are in a file or in a field of the samples: give 'path' or 'field'")
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise ValueError("a scale is [lowest, highest]")
        return self
