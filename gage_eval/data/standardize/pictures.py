"""Preprocessor for questions on scanned pages (DocVQA).

It keeps the pages' paths as the record has them, relative to the dataset's ``content_root``. Preprocess reads the
images themselves.
"""

from typing import Annotated, Any

from pydantic import Field

from gage_eval.base.errors import InputError
from gage_eval.data.standardize.base import BuiltInPreprocessor, image_segment
from gage_eval.data.standardize.compose import instructed
from gage_eval.data.standardize.fields import (
    addresses,
    carry_over,
    first_of,
    is_null,
    lacking,
    listed,
    question_in,
    read,
    text_of,
)
from gage_eval.data.standardize.options import IdField, Instruction, Question, QuestionField, SystemPrompt, TaskType
from gage_eval.extend import registry

_ANSWERS = ("answers", "answer", "ground_truth")


@registry.preprocessors.register("docvqa", version=2)
class DocVqa(BuiltInPreprocessor):
    """A question on scanned pages with all its accepted answers (DocVQA, receipts).

    ``metadata`` gets ``answers`` and ``image_url``. The pages stand before the question.
    """

    question: Question = None
    question_field: QuestionField = "question"
    answers_field: Annotated[
        str | None,
        Field(description="The accepted answer or answers; by default answers, answer or ground_truth."),
    ] = None
    image_field: Annotated[str | None, Field(description="Another name of content_field.")] = None
    content_field: Annotated[
        str | None, Field(description="The path of the page, or a list of them. Default `image`.")
    ] = None
    id_field: IdField = "id"
    system_prompt: SystemPrompt = None
    instruction: Instruction = "Answer with a word or a short phrase from the document."
    task_type: TaskType = "doc-qa"

    def check(self) -> None:
        super().check()
        if self.image_field and self.content_field and self.image_field != self.content_field:
            raise InputError("content_field and image_field mean the same; give one of them.")

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        pages_field = self.content_field or self.image_field or "image"
        question = question_in(record, self.question_field) if self.question is None else self.question
        pages = addresses(read(record, pages_field), pages_field)
        answer_fields = (self.answers_field,) if self.answers_field else _ANSWERS
        answers_key, value = first_of(record, answer_fields)
        if value is None and not any(is_null(record, name) for name in answer_fields):
            raise lacking(record, answer_fields, "answer", "answers_field")
        answers = [text_of(item, answers_key) for item in listed(value)]
        used = ("messages", "label", self.question_field, answers_key or answer_fields[0], pages_field, self.id_field)
        sample = carry_over(record, used)
        content = [*map(image_segment, pages), {"type": "text", "text": instructed(question, self.instruction)}]
        facts = {"answers": answers, "image_url": pages[0]}
        return self.finished(record, sample, content, list(answers), self.task_type, facts)
