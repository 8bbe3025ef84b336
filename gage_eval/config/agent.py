"""A program that is a task's agent."""

from typing import Self

from pydantic import model_validator

from gage_eval.base.marks import identity, semantic
from gage_eval.config.base_model import ConfigModel, check_in_box


class AgentConfig(ConfigModel):
    """A program that runs in the adapter's box and asks the model through a relay."""

    command: list[str] = semantic("infer", min_length=1)
    # By their paths in the box. Their content is in the key.
    files: dict[str, str] = identity("infer", {})
    env: dict[str, str] = semantic("infer", {})
    answer_file: str | None = semantic("infer", None, min_length=1)
    max_turns: int = semantic("infer", 100, ge=1)
    # It only ends a program; processor time and turns decide.
    wall_s: float = semantic("infer", 3600.0, gt=0, le=86_400)

    @model_validator(mode="after")
    def _stays_in_the_box(self) -> Self:
        check_in_box([*self.files, *filter(None, [self.answer_file])])
        return self
