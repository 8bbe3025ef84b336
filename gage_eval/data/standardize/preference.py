"""The preprocessor for preference data: a question with a better and a worse answer."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.base import BuiltInPreprocessor, build_messages
from gage_eval.data.standardize.fields import carry_over, first_of, lacking, object_of, read, text_of
from gage_eval.data.standardize.options import IdField, SystemPrompt, TaskType
from gage_eval.extend import registry

_QUESTIONS = ("prompt", "question", "instruction")
_PREFERRED = {"A": False, "A>B": False, "B": True, "B>A": True}


@registry.preprocessors.register("preference", version=1)
class Preference(BuiltInPreprocessor):
    """A question, and two answers of which one is known to be better.

    The answers are ``metadata.chosen`` and ``metadata.rejected``, texts. Each may be a conversation in the record,
    whose last message is the answer; without a question, the messages before the chosen answer are asked.
    """

    question_field: Annotated[
        str | None, Field(description="The question, or messages; by default prompt, question or instruction.")
    ] = None
    chosen_field: Annotated[str, Field(description="The better answer.")] = "chosen"
    rejected_field: Annotated[str, Field(description="The worse answer.")] = "rejected"
    preferred_field: Annotated[
        str | None,
        Field(
            description="Which is better, where records say so: `A>B` (or `A`) for the answer of `chosen_field`, `B>A` "
            "for the other, as in JudgeBench."
        ),
    ] = None
    id_field: IdField = "id"
    system_prompt: SystemPrompt = None
    task_type: TaskType = "preference"

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        question_field, question = first_of(record, (self.question_field,) if self.question_field else _QUESTIONS)
        chosen, before = self._answer(record, self.chosen_field, "chosen_field")
        rejected, _ = self._answer(record, self.rejected_field, "rejected_field")
        if self.preferred_field is not None:
            said = read(record, self.preferred_field)
            if type(said) is not str or said not in _PREFERRED:
                raise RecordRejected(f"{self.preferred_field}: it must be A>B or B>A.")
            chosen, rejected = (rejected, chosen) if _PREFERRED[said] else (chosen, rejected)
        if type(question) is list:
            messages = question
        elif question is not None:
            messages = build_messages(text_of(question, question_field), self.system_prompt)
        elif before:
            messages = before
        else:
            raise lacking(record, _QUESTIONS, "question", "question_field")
        used = (question_field, self.chosen_field, self.rejected_field, self.preferred_field or "", self.id_field)
        sample = carry_over(record, (*used, "messages", "references", "label"))
        sample["messages"] = messages
        sample["references"] = []
        sample["metadata"] = {**object_of(sample, "metadata"), "chosen": chosen, "rejected": rejected}
        sample["task_type"] = self.task_type
        self.field_map.apply(record, sample)
        return sample

    def _answer(
        self, record: dict[str, Any], field: str, setting: Literal["chosen_field", "rejected_field"]
    ) -> tuple[str, list[Any]]:
        """The text of an answer, and the messages before it."""
        value = read(record, field)
        if value is None:
            raise lacking(record, (field,), "answer", setting)
        if type(value) is not list:
            return text_of(value, field), []
        if not value or type(value[-1]) is not dict:
            raise RecordRejected(f"{field}: it must be a text or a list of messages.")
        return text_of(value[-1].get("content"), f"{field}[-1].content"), value[:-1]
