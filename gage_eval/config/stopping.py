"""The section `stop_when` of a task: the rows that are asked before its score is known well enough."""

from typing import Self

from pydantic import model_validator

from gage_eval.base.marks import nested, semantic
from gage_eval.config.base_model import ConfigModel


class DecidedConfig(ConfigModel):
    """A baseline that the task is better than, or worse than, by more than chance explains."""

    baseline: str = semantic("report", min_length=1)
    tolerance: float = semantic("report", 0.02, ge=0.0)


class StopConfig(ConfigModel):
    """Stop asking when the score, or the verdict of the gate, is known well enough."""

    half_width: float | None = semantic("report", None, gt=0.0, lt=0.5)
    decided: DecidedConfig | None = nested(None)
    metric: str | None = semantic("report", None, min_length=1)

    @model_validator(mode="after")
    def _rule(self) -> Self:
        if (self.half_width is None) == (self.decided is None):
            raise ValueError("give 'half_width' or 'decided'")
        return self
