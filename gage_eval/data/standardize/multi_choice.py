"""Preprocessors for multiple-choice questions (PIQA, MMLU, ARC and the like)."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from gage_eval.base.errors import InputError
from gage_eval.data.standardize.base import BuiltInPreprocessor, build_messages
from gage_eval.data.standardize.choices import Choice, choices_of, set_options
from gage_eval.data.standardize.compose import instructed
from gage_eval.data.standardize.fields import FieldMap, answer_in, carry_over, object_of, required, text_of
from gage_eval.data.standardize.options import (
    AnswerIndexBase,
    ChoicesField,
    IdField,
    Instruction,
    QuestionField,
    SystemPrompt,
    TaskType,
    Template,
)
from gage_eval.extend import registry

INSTRUCTION = "Answer with the letter of the correct option only."


@registry.preprocessors.register("multi_choice_struct_only", version=3)
class MultiChoiceStructOnly(BuiltInPreprocessor):
    """Multiple choice without messages: a prompt of the config renders them.

    ``metadata`` gets question_text, option_map, correct_choice, and the names of the fields they came from.
    """

    question_field: QuestionField = "question"
    choices_field: ChoicesField = None
    options_field: Annotated[str | Sequence[str] | None, Field(description="Another name of choices_field.")] = None
    answer_field: Annotated[
        str | None, Field(description="The correct one as letter, index or text; null for sets without answers.")
    ] = "answer"
    answer_index_base: AnswerIndexBase = 0
    id_field: IdField = "id"
    task_type: TaskType = "multiple-choice"

    @cached_property
    def field_map(self) -> FieldMap:
        return FieldMap(self.fields)

    def check(self) -> None:
        super().check()
        named = [name for name in (self.choices_field, self.options_field) if name is not None]
        if len(named) == 2 and named[0] != named[1] and "choices_field" in self.model_fields_set:
            raise InputError("choices_field and options_field mean the same; give one of them.")

    @property
    def source(self) -> str | Sequence[str]:
        """The field or fields that hold the candidates."""
        return self.options_field or self.choices_field or "choices"

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        return self.structure(record, self.source)

    def structure(self, record: dict[str, Any], source: str | Sequence[str]) -> dict[str, Any]:
        """The sample without messages, its candidates read from ``source``.

        Raises:
            RecordRejected: question, candidates or answer are missing or wrong.
        """
        question = required(record, self.question_field, "question", "question_field")
        choices = _choices(record, source)
        fields = [source] if isinstance(source, str) else list(source)
        sample = carry_over(record, [self.question_field, self.answer_field or "", *fields])
        answer = answer_in(record, self.answer_field or "")
        sample["metadata"] = {
            **object_of(sample, "metadata"),
            **set_options(sample, choices, answer, self.answer_index_base, self.answer_field or ""),
            "question_text": text_of(question, self.question_field),
            "question_field": self.question_field,
            "choices_field": source if isinstance(source, str) else fields,
            "answer_field": self.answer_field,
        }
        sample["messages"] = []
        if sample.get("task_type") is None:
            sample["task_type"] = self.task_type
        if self.id_field != "id":
            sample["id"] = text_of(required(record, self.id_field, "id", "id_field"), self.id_field)
        self.field_map.apply(record, sample)
        return sample

    def question_of(self, record: dict[str, Any], sample: Mapping[str, Any]) -> str:
        """The user message of a structured sample: the template's text, else question and lettered options."""
        question, options = sample["metadata"]["question_text"], sample["options"]
        if self.user_message is not None:
            return self.user_message.render(question, options, record)
        listed = "\n".join(f"{option['id']}. {option['content'].strip()}" for option in options)
        return f"{question}\n\n{listed}"


@registry.preprocessors.register("multi_choice", version=3)
class MultiChoice(MultiChoiceStructOnly):
    """Multiple choice with lettered options and the prompt built from them."""

    system_prompt: SystemPrompt = None
    instruction: Instruction = INSTRUCTION
    template: Template = None

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        sample = self.structure(record, self.source)
        text = self.question_of(record, sample)
        if self.user_message is None:
            text = instructed(text, self.instruction)
        return {**sample, "messages": build_messages(text, self.system_prompt)}


def _choices(record: Mapping[str, Any], source: str | Sequence[str]) -> list[Choice]:
    if isinstance(source, str):
        return choices_of(required(record, source, "list of choices", "choices_field"), source)
    # Unchanged, with leading and trailing spaces: the log-likelihood is that of the dataset's own candidate.
    return choices_of(
        [text_of(required(record, field, "choice", "choices_field"), field) for field in source], "choices"
    )
