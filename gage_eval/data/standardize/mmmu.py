"""Preprocessors for MMMU and MMMU-Pro: questions with images in the text and in the options.

They keep the images' paths as the record has them, relative to the dataset's ``content_root``. Preprocess reads the
images themselves.
"""

import ast
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from gage_eval.base import canonical
from gage_eval.base.python_syntax import expression_tree
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.base import BuiltInPreprocessor, image_segment
from gage_eval.data.standardize.choices import Choice, choices_of, set_options
from gage_eval.data.standardize.fields import addresses, answer_in, lacking, object_of, question_in, read, text_of
from gage_eval.data.standardize.options import IdField, QuestionField, SystemPrompt
from gage_eval.extend import registry

_SLOT = re.compile(r"<image (\d{1,3})>")
_MAX_LITERAL = 100_000
_LETTER_LINE = (
    "The last line of your response should be of the following format: 'Answer: $LETTER' (without quotes) where LETTER "
    "is one of options."
)
# ``mmmu-pro/infer/prompts.yaml`` of MMMU-Benchmark/MMMU, by setting and mode.
_PRO_INSTRUCTIONS = {
    ("standard", "direct"): "Answer with the option letter from the given choices directly.",
    ("standard", "cot"): (
        f"Answer the preceding multiple choice question. {_LETTER_LINE} Think step by step before answering."
    ),
    ("vision", "direct"): f"Answer with the option letter from the given choices directly. {_LETTER_LINE}",
    ("vision", "cot"): (
        f"Write out the multiple-choice question in the image and then solve it. {_LETTER_LINE} Think step by step "
        "before answering."
    ),
}

ChoicesText = Annotated[str, Field(description="The options: a list, or the text of one as on the hub.")]
ImagePrefix = Annotated[str, Field(description="Image N is the field of this name and N.")]


@registry.preprocessors.register("mmmu", version=2)
class Mmmu(BuiltInPreprocessor):
    """MMMU (Yue et al. 2024, arXiv:2311.16502): images take the places of ``<image N>`` in question and options.

    The text is that of the authors' evaluation: the question, ``(A) …`` line by line, the instruction. A question
    without options is an open one.
    """

    question_field: QuestionField = "question"
    choices_field: ChoicesText = "options"
    answer_field: Annotated[
        str | None,
        Field(description="The correct letter, or the answers of an open question; null for sets without answers."),
    ] = "answer"
    image_prefix: ImagePrefix = "image_"
    id_field: IdField = "id"
    system_prompt: SystemPrompt = None
    choice_instruction: Annotated[str | None, Field(description="The last line of a question with options.")] = (
        "Answer with the option's letter from the given choices directly."
    )
    open_instruction: Annotated[str | None, Field(description="The last line of one without.")] = (
        "Answer the question using a single word or phrase."
    )

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        text = question_in(record, self.question_field)
        options = _listed(read(record, self.choices_field), self.choices_field)
        answer_field = self.answer_field or ""
        answer = answer_in(record, answer_field)
        used = {self.question_field, self.choices_field, answer_field, self.id_field}
        used |= {"question_type", "label", "messages"}
        sample = {
            name: value for name, value in record.items() if name not in used and not name.startswith(self.image_prefix)
        }
        facts: dict[str, Any] = {"question_text": text}
        if options:
            choices = choices_of(options, self.choices_field)
            facts |= set_options(sample, choices, answer, 0, answer_field)
            lines = [text, *(f"({choice.id}) {choice.text}" for choice in choices)]
            instruction = self.choice_instruction
        else:
            answers = [] if answer is None else _listed(answer, answer_field) or [answer]
            sample["references"] = [text_of(item, answer_field) for item in answers]
            lines, instruction = [text], self.open_instruction
        content = _with_images("\n".join([*lines, *([instruction] if instruction else [])]), record, self.image_prefix)
        task_type = "multiple-choice" if options else "short-answer"
        return self.finished(record, sample, content, sample["references"], task_type, facts)


@registry.preprocessors.register("mmmu_pro", version=1)
class MmmuPro(BuiltInPreprocessor):
    """MMMU-Pro (Yue et al. 2024, arXiv:2409.02813) with the prompts of its authors.

    ``setting: standard`` is for the sets with ten and with four options: the question, ``A. …`` line by line, the
    instruction. Images take the places of ``<image N>``; the authors send them after the text. ``setting: vision``
    sends the instruction and the image that shows the question. Apart from standard and direct, the instruction asks
    for a last line ``Answer: $LETTER``. A record without any image, as the authors publish them with their results,
    becomes a question in text: its ``<image N>`` stay as they are.
    """

    setting: Annotated[
        Literal["standard", "vision"],
        Field(description="`standard`: question and options as text; `vision`: both in one image."),
    ] = "standard"
    mode: Annotated[
        Literal["direct", "cot"], Field(description="`direct`: the letter; `cot`: the reasoning first.")
    ] = "direct"
    instruction: Annotated[
        str | None, Field(description="Your own in place of the authors' for this setting and mode; empty for none.")
    ] = None
    question_field: QuestionField = "question"
    choices_field: ChoicesText = "options"
    answer_field: Annotated[str | None, Field(description="The correct letter; null for sets without answers.")] = (
        "answer"
    )
    subject_field: Annotated[str, Field(description="The subject, for `data_tag.subject`.")] = "subject"
    image_prefix: ImagePrefix = "image_"
    image_field: Annotated[str, Field(description="The image of a question in setting vision.")] = "image"
    text_only: Annotated[bool, Field(description="Leave images out where records have them.")] = False
    id_field: IdField = "id"
    system_prompt: SystemPrompt = None

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        listed = _listed(read(record, self.choices_field), self.choices_field)
        if not listed:
            raise lacking(record, (self.choices_field,), "list of options", "choices_field")
        choices = choices_of(listed, self.choices_field)
        answer_field = self.answer_field or ""
        answer = answer_in(record, answer_field)
        used = {self.question_field, self.choices_field, answer_field, self.subject_field, self.image_field}
        used |= {self.id_field, "label", "messages"}
        sample = {
            name: value for name, value in record.items() if name not in used and not name.startswith(self.image_prefix)
        }
        facts = set_options(sample, choices, answer, 0, answer_field)
        question = read(record, self.question_field)
        if question is not None:
            facts["question_text"] = text_of(question, self.question_field)
        content = self._vision(record) if self.setting == "vision" else self._standard(record, choices)
        if (subject := read(record, self.subject_field)) is not None:
            tags = object_of(sample, "data_tag")
            sample["data_tag"] = {"subject": text_of(subject, self.subject_field), **tags}
        return self.finished(record, sample, content, sample["references"], "multiple-choice", facts)

    def _standard(self, record: Mapping[str, Any], choices: list[Choice]) -> list[dict[str, Any]]:
        question = question_in(record, self.question_field)
        lines = [question, *(f"{choice.id}. {choice.text}" for choice in choices)]
        text = "\n".join([*lines, *self._last_line()])
        if self.text_only or not any(
            name.startswith(self.image_prefix) and value is not None for name, value in record.items()
        ):
            return [{"type": "text", "text": text}]
        return _with_images(text, record, self.image_prefix)

    def _vision(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        image = None if self.text_only else read(record, self.image_field)
        shown = [] if image is None else [image_segment(addresses(image, self.image_field)[0])]
        return [*({"type": "text", "text": line} for line in self._last_line()), *shown]

    def _last_line(self) -> list[str]:
        own = self.instruction
        line = _PRO_INSTRUCTIONS[self.setting, self.mode] if own is None else own
        return [line] if line else []


def _with_images(text: str, record: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Text and images in turn. A text without a slot gets image 1 before it, if there is one."""
    content: list[dict[str, Any]] = []
    end = 0
    for slot in _SLOT.finditer(text):
        field = f"{prefix}{int(slot[1])}"
        (address,) = addresses(read(record, field), field)[:1]
        content += [{"type": "text", "text": text[end : slot.start()]}, image_segment(address)]
        end = slot.end()
    content.append({"type": "text", "text": text[end:]})
    first = f"{prefix}1"
    if end == 0 and read(record, first) is not None:
        content.insert(0, image_segment(addresses(read(record, first), first)[0]))
    return [segment for segment in content if segment["type"] != "text" or segment["text"]]


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
        items = canonical.normalise(ast.literal_eval(expression_tree(text)))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise RecordRejected(f"{field}: '{text[:60]}' is not a list.") from None
    return items if type(items) is list else []
