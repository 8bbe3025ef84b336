"""CanonicalAnswer: one form for the answer of any task. `docs/canonical_answer.schema.json` is generated from here."""

from typing import Any, ClassVar, Literal, TypeAlias, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field

from gage_eval.base.strict_model import StrictModel

AnswerType: TypeAlias = Literal["choice", "number", "list", "text", "reasoning"]
ANSWER_TYPES: tuple[AnswerType, ...] = get_args(AnswerType)


class AnswerMeta(BaseModel):
    """Further facts about an answer. Unknown keys are kept."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True, defer_build=True)

    scorer_version: str | None = Field(default=None, description="Version of the scoring profile, where known.")
    pass_threshold: float | None = Field(
        default=None, description="Primary score from which the answer passes; null where the profile has no preset."
    )


class CanonicalAnswer(StrictModel):
    """What a model answered and what would have been right."""

    task_id: str = Field(description="The task's name in the config.")
    sample_id: str = Field(description="The sample's id.")
    answer_type: AnswerType = Field(description="What kind of answer it is.")
    prediction: dict[str, Any] = Field(description="text: the answer; extracted: what the primary metric read from it.")
    ground_truth: dict[str, Any] = Field(description="The label and the references.")
    meta: AnswerMeta = Field(default=AnswerMeta(), description="What else is known.")


def json_schema() -> bytes:
    """The JSON schema of a canonical answer, as kept in docs/canonical_answer.schema.json."""
    schema = CanonicalAnswer.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"
