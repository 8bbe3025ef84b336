"""Preprocessors for questions on images: DocVQA and MMMU.

They keep the images' paths as the record has them, relative to the dataset's ``content_root``. Preprocess reads the
images themselves.
"""

import ast
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from gage_eval import canonical, registry
from gage_eval.errors import InputError
from gage_eval.sample.record import RecordRejected
from gage_eval.standardize.base import (
    addresses,
    build_messages,
    carry_over,
    choices_of,
    first_of,
    lacking,
    object_of,
    read,
    set_options,
    text_in,
    text_of,
)
from gage_eval.standardize.compose import instructed
from gage_eval.standardize.options import (
    BuiltInPreprocessor,
    IdField,
    Instruction,
    QuestionField,
    SystemPrompt,
    TaskType,
)

_SLOT = re.compile(r"<image (\d{1,3})>")
_MAX_LITERAL = 100_000
_ANSWERS = ("answers", "answer", "ground_truth")


@registry.preprocessors.register("docvqa", version=1)
class DocVqa(BuiltInPreprocessor):
    """A question on scanned pages with all its accepted answers (DocVQA, receipts).

    ``metadata`` gets ``answers`` and ``image_url``. The pages stand before the question.
    """

    question: Annotated[str | None, Field(description="One question for all records, where they have none.")] = None
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
        asked = self.question
        if asked is None:
            asked = text_in(record, self.question_field, "question", "question_field")
        pages = addresses(read(record, pages_field), pages_field)
        answer_fields = (self.answers_field,) if self.answers_field else _ANSWERS
        answers_key, value = first_of(record, answer_fields)
        if value is None:
            raise lacking(record, answer_fields, "answer", "answers_field")
        answers = [text_of(item, answers_key) for item in (value if type(value) is list else [value])]
        used = ("messages", "label", self.question_field, answers_key, pages_field, self.id_field)
        sample = carry_over(record, used)
        content = [*map(_image, pages), {"type": "text", "text": instructed(asked, self.instruction)}]
        sample["messages"] = build_messages(content, self.system_prompt)
        sample["references"] = list(answers)
        sample["metadata"] = {**object_of(sample, "metadata"), "answers": answers, "image_url": pages[0]}
        sample["task_type"] = self.task_type
        self.field_map.apply(record, sample)
        return sample


@registry.preprocessors.register("mmmu", version=1)
class Mmmu(BuiltInPreprocessor):
    """MMMU and MMMU-Pro (Yue et al. 2024): images take the places of ``<image N>`` in question and options.

    The text is that of the authors' evaluation: the question, ``(A) …`` line by line, the instruction. A question
    without options is an open one.
    """

    question_field: QuestionField = "question"
    choices_field: Annotated[str, Field(description="The options: a list, or the text of one as on the hub.")] = (
        "options"
    )
    answer_field: Annotated[
        str | None,
        Field(description="The correct letter, or the answers of an open question; null for sets without answers."),
    ] = "answer"
    image_prefix: Annotated[str, Field(description="Image N is the field of this name and N.")] = "image_"
    id_field: IdField = "id"
    system_prompt: SystemPrompt = None
    choice_instruction: Annotated[str | None, Field(description="The last line of a question with options.")] = (
        "Answer with the option's letter from the given choices directly."
    )
    open_instruction: Annotated[str | None, Field(description="The last line of one without.")] = (
        "Answer the question using a single word or phrase."
    )

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        text = text_in(record, self.question_field, "question", "question_field")
        options = _listed(read(record, self.choices_field), self.choices_field)
        answer_field = self.answer_field or ""
        answer = read(record, answer_field) if answer_field else None
        if answer_field and answer is None:
            raise lacking(record, (answer_field,), "answer", "answer_field")
        used = {self.question_field, self.choices_field, answer_field, self.id_field}
        used |= {"question_type", "label", "messages"}
        sample = {
            name: value for name, value in record.items() if name not in used and not name.startswith(self.image_prefix)
        }
        metadata: dict[str, Any] = {**object_of(sample, "metadata"), "question_text": text}
        if options:
            choices = choices_of(options, self.choices_field)
            metadata |= set_options(sample, choices, answer, 0, answer_field)
            lines = [text, *(f"({choice.id}) {choice.text}" for choice in choices)]
            instruction = self.choice_instruction
        else:
            answers = [] if answer is None else _listed(answer, answer_field) or [answer]
            sample["references"] = [text_of(item, answer_field) for item in answers]
            lines, instruction = [text], self.open_instruction
        content = _with_images("\n".join([*lines, *([instruction] if instruction else [])]), record, self.image_prefix)
        sample["messages"] = build_messages(content, self.system_prompt)
        sample["metadata"] = metadata
        sample["task_type"] = "multiple-choice" if options else "short-answer"
        self.field_map.apply(record, sample)
        return sample


def _with_images(text: str, record: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Text and images in turn. A text without a slot gets image 1 before it, if there is one."""
    content: list[dict[str, Any]] = []
    end = 0
    for slot in _SLOT.finditer(text):
        field = f"{prefix}{int(slot[1])}"
        (address,) = addresses(read(record, field), field)[:1]
        content += [{"type": "text", "text": text[end : slot.start()]}, _image(address)]
        end = slot.end()
    content.append({"type": "text", "text": text[end:]})
    first = f"{prefix}1"
    if end == 0 and read(record, first) is not None:
        content.insert(0, _image(addresses(read(record, first), first)[0]))
    return [segment for segment in content if segment["type"] != "text" or segment["text"]]


def _image(address: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": address}}


def _listed(value: Any, field: str) -> list[Any]:
    """A list, or a list written as Python text; empty for null and for text that is not a list."""
    if value is None or type(value) is list:
        return value or []
    if type(value) is not str:
        return [value]
    text = value.strip()
    if not (text.startswith("[") and text.endswith("]")) or len(text) > _MAX_LITERAL:
        return []
    try:
        # Literals only, nothing is evaluated; and only those that JSON has too.
        found = canonical.normalise(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise RecordRejected(f"{field}: '{text[:60]}' is not a list.") from None
    return found if type(found) is list else []
