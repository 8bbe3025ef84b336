"""The preprocessor for records that are already Samples, or simple questions and answers."""

from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.standardize.answers import AnswerRule, answer_rule
from gage_eval.data.standardize.base import BuiltInPreprocessor, build_messages
from gage_eval.data.standardize.choices import choices_of, set_options
from gage_eval.data.standardize.fields import (
    FieldMap,
    carry_over,
    first_of,
    lacking,
    listed,
    object_of,
    required,
    text_of,
)
from gage_eval.data.standardize.options import AnswerIndexBase, DefaultTaskType, IdField, SystemPrompt, Template
from gage_eval.extend import registry

QUESTION_FIELDS = ("question", "prompt", "text", "goal", "inputs.prompt")
ANSWER_FIELDS = ("answer", "label", "target")
CHOICES_FIELDS = ("choices", "options")


@registry.preprocessors.register("default", version=2)
class Default(BuiltInPreprocessor):
    """Samples as they are; question, answer and choices of other records mapped."""

    question_field: Annotated[
        str | None,
        Field(description="The record's question; by default question, prompt, text, goal, inputs.prompt."),
    ] = None
    answer_field: Annotated[
        str | None, Field(description="Its answer, one or a list; by default answer, label or target.")
    ] = None
    choices_field: Annotated[str | None, Field(description="Its candidates; by default choices or options.")] = None
    messages_field: Annotated[
        str, Field(description="The record's messages, as `input` in rows of OpenAI's evals.")
    ] = "messages"
    id_field: IdField = "id"
    answer_index_base: AnswerIndexBase = 0
    answer_split: Annotated[
        str | None, Field(description="The final answer follows the last occurrence of this text, for example `#### `.")
    ] = None
    answer_regex: Annotated[
        str | None, Field(description="The final answer is this expression's last match (its first group).")
    ] = None
    answer_strip: Annotated[
        str | None, Field(description="Characters removed from the final answer, for example the comma of thousands.")
    ] = None
    system_prompt: SystemPrompt = None
    template: Template = None
    task_type: DefaultTaskType = None

    @cached_property
    def field_map(self) -> FieldMap:
        return FieldMap(self.fields)

    @cached_property
    def rule(self) -> AnswerRule:
        return answer_rule(self.answer_split, self.answer_regex, self.answer_strip)

    def check(self) -> None:
        super().check()
        _ = self.rule

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        if self.messages_field != "messages":
            messages = required(record, self.messages_field, "conversation", "messages_field")
            top = self.messages_field.partition(".")[0]
            record = {**{key: value for key, value in record.items() if key != top}, "messages": messages}
        if record.get("messages") is not None and self.question_field is None:
            sample = self._complete(record)
        else:
            sample = self._from_question(record)
        if sample.get("task_type") is None and (kind := record.get("question_type") or self.task_type) is not None:
            sample["task_type"] = text_of(kind, "question_type")
        sample.pop("question_type", None)
        if self.id_field != "id":
            sample["id"] = text_of(required(record, self.id_field, "id", "id_field"), self.id_field)
        self.field_map.apply(record, sample)
        return sample

    def _from_question(self, record: dict[str, Any]) -> dict[str, Any]:
        questions = (self.question_field,) if self.question_field else QUESTION_FIELDS
        question_key, question = first_of(record, questions)
        if question is None:
            raise lacking(record, questions, "question", "question_field")
        choices_key, candidates = first_of(record, (self.choices_field,) if self.choices_field else CHOICES_FIELDS)
        answer_key, answer = first_of(record, self._answer_fields)
        sample = carry_over(record, (question_key, choices_key, answer_key))
        text = text_of(question, question_key)
        if candidates is not None:
            choices = choices_of(candidates, choices_key)
            facts = set_options(sample, choices, answer, self.answer_index_base, answer_key)
            sample["metadata"] = {**object_of(sample, "metadata"), **facts}
        elif sample.get("references") is None:
            self._add_references(sample, answer, answer_key)
        if self.user_message is not None:
            text = self.user_message.render(text, sample.get("options", []), record)
        sample["messages"] = build_messages(text, self.system_prompt)
        return sample

    def _complete(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record with messages, with its answer taken from where earlier formats had it."""
        sample = dict(record)
        choices = record.get("choices")
        if type(choices) is list and _holds_messages(choices):
            # llm-eval: `choices` is shaped like a response and holds the reference.
            del sample["choices"]
            sample["choices_role"] = "reference"
            if not sample.get("references"):
                sample["references"] = [_choice_text(choice, index) for index, choice in enumerate(choices)]
                sample.pop("label", None)
            return sample
        if sample.get("references") is None and sample.get("label") is None:
            key, answer = first_of(record, self._answer_fields)
            sample.pop(key, None)
            self._add_references(sample, answer, key)
        return sample

    @property
    def _answer_fields(self) -> tuple[str, ...]:
        return (self.answer_field,) if self.answer_field else ANSWER_FIELDS

    def _add_references(self, sample: dict[str, Any], answer: Any, field: str) -> None:
        texts = [text_of(value, field) for value in listed(answer)]
        if not self.rule.active:
            sample["references"] = texts
            return
        sample["references"] = [self.rule(text, field) for text in texts]
        if texts:
            # The worked solution that contains the final answer; few-shot prompts show it.
            sample["metadata"] = {**object_of(sample, "metadata"), "answer_text": texts[0]}


def _holds_messages(choices: list[Any]) -> bool:
    return bool(choices) and all(type(item) is dict and "message" in item for item in choices)


def _choice_text(choice: dict[str, Any], index: int) -> Any:
    message = choice["message"]
    content = message.get("content") if type(message) is dict else None
    if type(content) is not str and type(content) is not list:
        raise RecordRejected(f"choices[{index}].message.content: the reference is {kind_of(content)}, not text.")
    return {"answer": content}
