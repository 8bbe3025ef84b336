"""The rule of a gate: what it tolerates, and how it decides."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Mode: TypeAlias = Literal["significance", "tolerance", "exact"]


class GateRule(BaseModel):
    """How a gate decides.

    Attributes:
        mode: ``significance``; ``tolerance``: a loss of more than the tolerance, without a test; or ``exact``: any
            changed answer, whatever it scores. The last one is not decided here, because it needs the answers.
        tolerance: the loss that is accepted, in units of the metric.
        alpha: one-sided level.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = "significance"
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.02
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
