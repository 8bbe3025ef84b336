"""The section `stop_when` of a task: the rows that are asked before its score is known well enough."""

from gage_eval.base.marks import semantic
from gage_eval.config.base_model import ConfigModel


class StopConfig(ConfigModel):
    """Stop asking when the score is known well enough."""

    half_width: float = semantic("report", gt=0.0, lt=0.5)
    metric: str | None = semantic("report", None, min_length=1)
