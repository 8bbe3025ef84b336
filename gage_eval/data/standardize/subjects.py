"""Preprocessors for PIQA, HellaSwag, MMLU and its kin, and TruthfulQA."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from gage_eval.base.canonical import sha256_hex
from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.sample.rules import option_letter
from gage_eval.data.standardize.base import BuiltInPreprocessor, build_messages
from gage_eval.data.standardize.fields import carry_over, object_of, read, text_of
from gage_eval.data.standardize.multi_choice import INSTRUCTION, MultiChoice, MultiChoiceStructOnly
from gage_eval.data.standardize.options import ChoicesField, Instruction, QuestionField, SystemPrompt, Template
from gage_eval.data.standardize.simple import Simple
from gage_eval.extend import registry

_LISTED = "{% for option in options %}\n{{ option.id }}. {{ option.content }}{% endfor %}"
_MARK = re.compile(r"\[.*?\]")
_NO_COMMENT = "I have no comment."
SPLIT = re.compile(r"_(test|dev|val|train)$")


@registry.preprocessors.register("piqa", version=3)
class Piqa(MultiChoice):
    """PIQA: a goal and two ways to reach it (Bisk et al. 2020)."""

    question_field: QuestionField = "goal"
    choices_field: ChoicesField = ("sol1", "sol2")
    answer_field: Annotated[str | None, Field(description="The correct one as an index; null for sets without.")] = (
        "label"
    )


@registry.preprocessors.register("hellaswag", version=1)
class HellaSwag(MultiChoice):
    """HellaSwag (Zellers et al. 2019): the start of a text and four endings, cleaned as in the lm-eval harness.

    The question is the activity's name, a colon, and the context. Marks of WikiHow such as `[header]` are removed.
    """

    choices_field: ChoicesField = "endings"
    answer_field: Annotated[str | None, Field(description="The right ending as an index; null for sets without.")] = (
        "label"
    )

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        label, start, end = (text_of(_needed(record, field), field) for field in ("activity_label", "ctx_a", "ctx_b"))
        made = carry_over(record, ("ctx", "ctx_a", "ctx_b", "activity_label"))
        made[self.question_field] = _cleaned(f"{label}: {start} {end.capitalize()}")
        sample = super().to_sample({**made, **_cleaned_endings(record, self.source)})
        sample["data_tag"] = {"activity": label, **object_of(sample, "data_tag")}
        return sample


def _cleaned_endings(record: Mapping[str, Any], source: str | Sequence[str]) -> dict[str, Any]:
    """The fields of the endings: one that holds a list, or several that hold one each."""
    if not isinstance(source, str):
        return {field: _cleaned(text_of(_needed(record, field), field)) for field in source}
    endings = _needed(record, source)
    if type(endings) is not list:
        raise RecordRejected(f"{source}: it must be a list of texts, not {kind_of(endings)}.")
    return {source: [_cleaned(text_of(ending, source)) for ending in endings]}


def _cleaned(text: str) -> str:
    return _MARK.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def _needed(record: Mapping[str, Any], field: str) -> Any:
    value = read(record, field)
    if value is None:
        raise RecordRejected(f"{field}: it is missing.")
    return value


@registry.preprocessors.register("mmlu", version=3)
class Mmlu(MultiChoiceStructOnly):
    """MMLU in the format of its authors (Hendrycks et al. 2021): an intro that names the subject, "Answer:" last.

    ``choices`` of a record comes before ``choices_field`` where it is a list.
    """

    choices_field: ChoicesField = ("A", "B", "C", "D")
    subject_field: Annotated[
        str, Field(description="The subject, for `data_tag.subject`; `_test`, `_dev` or `_val` at its end is removed.")
    ] = "subject"
    subject_names: Annotated[
        Mapping[str, str] | None, Field(description="A subject's name in the intro; by default its id with blanks.")
    ] = None
    intro: Annotated[
        str | None,
        Field(description="The system message, `{subject}` replaced; null for none. Without a subject there is none."),
    ] = "The following are multiple choice questions (with answers) about {subject}."
    solution_field: Annotated[
        str | None, Field(description="The worked solution, which few-shot examples show as their answer.")
    ] = None
    solution_prefix: Annotated[str, Field(description="Text at the start of solutions that is removed.")] = ""
    template: Template = "{{ question }}" + _LISTED + "\nAnswer:"

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        sample = self.structure(record, "choices" if type(record.get("choices")) is list else self.source)
        sample["messages"] = build_messages(self.question_of(record, sample), None)
        solution = None if self.solution_field is None else read(record, self.solution_field)
        if self.solution_field is not None and solution is not None:
            sample.pop(self.solution_field, None)
            worked = text_of(solution, self.solution_field).removeprefix(self.solution_prefix)
            # Rows of the test split have an empty one.
            if worked:
                sample["metadata"]["answer_text"] = worked
        value = read(record, self.subject_field)
        if value is None:
            return sample
        subject = SPLIT.sub("", text_of(value, self.subject_field))
        sample.pop(self.subject_field, None)
        sample["data_tag"] = {"subject": subject, **object_of(sample, "data_tag")}
        if self.intro:
            called = (self.subject_names or {}).get(subject, subject.replace("_", " "))
            intro = self.intro.replace("{subject}", called)
            sample["messages"] = build_messages(sample["messages"][0]["content"], intro)
        return sample


@registry.preprocessors.register("cmmlu", version=3)
class Cmmlu(Mmlu):
    """CMMLU in the format of its authors (Li et al. 2023)."""

    question_field: QuestionField = "Question"
    answer_field: Annotated[
        str | None, Field(description="The correct one as letter or index; null for sets without answers.")
    ] = "Answer"
    intro: Annotated[str | None, Field(description="The system message, `{subject}` replaced; null for none.")] = (
        "以下是关于{subject}的单项选择题，请直接给出正确答案的选项。"
    )
    template: Template = "题目：{{ question }}" + _LISTED + "\n答案是："


@registry.preprocessors.register("truthfulqa_mc", version=3)
class TruthfulQaMc(BuiltInPreprocessor):
    """TruthfulQA's multiple choice (Lin et al. 2022): one true answer (mc1) or several (mc2).

    The published lists have the true answers first, so options are shuffled by a hash of seed, question and answer.
    ``metadata.targets`` holds 1 or 0 for each option; the references are the true letters.
    """

    targets: Annotated[
        Literal["mc1", "mc2"],
        Field(description="`<targets>_targets` of the record maps each answer to 1 or 0."),
    ] = "mc1"
    question_field: QuestionField = "question"
    seed: Annotated[int, Field(description="The seed of the options' order.")] = 0
    system_prompt: SystemPrompt = None
    instruction: Instruction = INSTRUCTION
    template: Template = None

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        field = f"{self.targets}_targets"
        labels = _labels(read(record, field), field)
        question = read(record, self.question_field)
        order = sorted(labels, key=lambda text: sha256_hex(f"{self.seed}\n{question}\n{text}".encode(errors="replace")))
        sample = self._as_choice.to_sample({**record, field: order})
        true = [option_letter(index) for index, text in enumerate(order) if labels[text]]
        unused = ("mc0_targets", "mc1_targets", "mc2_targets", "label")
        out = carry_over(sample, unused)
        out["references"] = true
        out["metadata"] = {
            **sample["metadata"],
            "targets": [labels[text] for text in order],
            "correct_choice": true[0],
        }
        self.field_map.apply(record, out)
        return out

    @cached_property
    def _as_choice(self) -> MultiChoice:
        return self.like(MultiChoice, choices_field=f"{self.targets}_targets", answer_field=None, fields=None)


@registry.preprocessors.register("truthfulqa_generation", version=1)
class TruthfulQaGeneration(BuiltInPreprocessor):
    """TruthfulQA's short answers (Lin et al. 2022): what an answer is compared with is in the metadata.

    `correct_answers` and `incorrect_answers` are lists of sentences that end in a full stop, as in the lm-eval harness;
    "I have no comment." is always a correct one.
    """

    question_field: QuestionField = "Question"
    answer_field: Annotated[str, Field(description="The best answer.")] = "Best Answer"
    correct_field: Annotated[str, Field(description="The true answers: a list, or text with `;` between.")] = (
        "Correct Answers"
    )
    incorrect_field: Annotated[str, Field(description="The false answers, one or a list.")] = "Incorrect Answers"
    category_field: Annotated[str, Field(description="What goes into `data_tag.category`.")] = "Category"
    system_prompt: SystemPrompt = None
    template: Template = None

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        question = text_of(_needed(record, self.question_field), self.question_field)
        sample = self._simple.to_sample({**record, self.question_field: question.strip()})
        correct = _sentences(record, self.correct_field)
        if _NO_COMMENT not in correct:
            correct.append(_NO_COMMENT)
        for field in (self.correct_field, self.incorrect_field, self.category_field):
            sample.pop(field, None)
        sample["metadata"] = {
            **object_of(sample, "metadata"),
            "correct_answers": correct,
            "incorrect_answers": _sentences(record, self.incorrect_field),
        }
        category = read(record, self.category_field)
        if category is not None:
            sample["data_tag"] = {"category": text_of(category, self.category_field), **object_of(sample, "data_tag")}
        return sample

    @cached_property
    def _simple(self) -> Simple:
        return self.like(Simple)


def _sentences(record: Mapping[str, Any], field: str) -> list[str]:
    """The answers that a field lists, each ending in a full stop."""
    value = _needed(record, field)
    listed = value if type(value) is list else text_of(value, field).split(";")
    texts = [text_of(item, field).strip() for item in listed]
    return [text if text.endswith(".") else f"{text}." for text in texts if text]


def _labels(value: Any, field: str) -> dict[str, int]:
    if type(value) is not dict or not value:
        raise RecordRejected(f"{field}: it must be an object that maps answers to 1 or 0, not {kind_of(value)}.")
    for text, label in value.items():
        if type(label) is not int or label not in (0, 1):
            raise RecordRejected(f"{field}: the label of '{text[:60]}' must be 0 or 1, not {kind_of(label)}.")
    if not any(value.values()):
        raise RecordRejected(f"{field}: no answer is true.")
    return value
