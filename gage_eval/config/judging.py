"""The sections `judge_rule` and `second_judge` of a task: who decides an answer before and after its judges."""

from typing import Self

from pydantic import model_validator

from gage_eval.base.marks import identity, semantic
from gage_eval.config.base_model import ConfigModel


class JudgeRuleConfig(ConfigModel):
    """A metric that decides answers, so that no judge is asked about them."""

    metric: str = identity("judge", min_length=1)
    values: list[float] = semantic("judge", [1.0], min_length=1)
    scale: list[float] | None = semantic("judge", None, min_length=2, max_length=2)

    @model_validator(mode="after")
    def _scale(self) -> Self:
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise ValueError("a scale is [lowest, highest]")
        return self


class SecondJudgeConfig(ConfigModel):
    """A judge that is asked about the answers of which the first ones are not sure."""

    adapter_id: str = identity("judge", min_length=1)
    below: float | None = semantic("judge", None, gt=0.0, le=1.0)
    spread: float = semantic("judge", 0.0, ge=0.0)
