"""Preprocessors for multiple choice by subject: PIQA, MMLU, CMMLU, TruthfulQA."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gage_eval import registry
from gage_eval.canonical import sha256_hex
from gage_eval.sample.record import RecordRejected, kind_of
from gage_eval.sample.rules import option_letter
from gage_eval.standardize.base import (
    FieldMap,
    Preprocessor,
    build_messages,
    carry_over,
    object_of,
    read,
    text_of,
)
from gage_eval.standardize.multi_choice import INSTRUCTION, multi_choice

_LISTED = "{% for option in options %}\n{{ option.id }}. {{ option.content }}{% endfor %}"
_SPLIT = re.compile(r"_(test|dev|val|train)$")


@registry.preprocessors.register("piqa", version=2)
def piqa(
    *,
    question_field: str = "goal",
    choices_field: str | Sequence[str] = ("sol1", "sol2"),
    answer_field: str | None = "label",
    answer_index_base: int = 0,
    system_prompt: str | None = None,
    instruction: str | None = INSTRUCTION,
    template: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """PIQA: a goal and two ways to reach it (Bisk et al. 2020). The arguments are those of ``multi_choice``."""
    made: Preprocessor = multi_choice(
        question_field=question_field,
        choices_field=choices_field,
        answer_field=answer_field,
        answer_index_base=answer_index_base,
        system_prompt=system_prompt,
        instruction=instruction,
        template=template,
        fields=fields,
    )
    return made


@registry.preprocessors.register("mmlu", version=2)
def mmlu(
    *,
    question_field: str = "question",
    choices_field: str | Sequence[str] = ("A", "B", "C", "D"),
    answer_field: str | None = "answer",
    subject_field: str = "subject",
    subject_names: Mapping[str, str] | None = None,
    intro: str | None = "The following are multiple choice questions (with answers) about {subject}.",
    template: str = "{{ question }}" + _LISTED + "\nAnswer:",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """MMLU in the format of its authors (Hendrycks et al. 2021): an intro that names the subject, "Answer:" last.

    Args:
        question_field: the record's question.
        choices_field: its candidates: fields that hold one each, or a list. ``choices`` of a record
            comes first where it is a list.
        answer_field: the correct one as letter or index; null for sets without answers.
        subject_field: the subject; it goes into ``data_tag.subject``. An ending ``_test``, ``_dev`` or ``_val``, as
            file names have it, is left out.
        subject_names: what a subject is called in the intro; by default its name with blanks.
        intro: the system message, ``{subject}`` replaced; null for none. Records without a subject get none.
        template: Jinja text of the user message; it sees ``question``, ``options`` and ``record``.
        fields: further fields of the Sample → fields of the record.
    """

    def structure(source: str | Sequence[str]) -> Preprocessor:
        made: Preprocessor = multi_choice(
            question_field=question_field,
            choices_field=source,
            answer_field=answer_field,
            template=template,
            fields=fields,
        )
        return made

    by_field, by_list = structure(choices_field), structure("choices")
    names = subject_names or {}

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        sample = (by_list if type(record.get("choices")) is list else by_field)(record)
        value = read(record, subject_field)
        if value is None:
            return sample
        subject = _SPLIT.sub("", text_of(value, subject_field))
        sample.pop(subject_field, None)
        sample["data_tag"] = {"subject": subject, **object_of(sample, "data_tag")}
        if intro:
            called = names.get(subject, subject.replace("_", " "))
            sample["messages"] = build_messages(sample["messages"][0]["content"], intro.replace("{subject}", called))
        return sample

    return to_sample


@registry.preprocessors.register("cmmlu", version=2)
def cmmlu(
    *,
    question_field: str = "Question",
    choices_field: str | Sequence[str] = ("A", "B", "C", "D"),
    answer_field: str | None = "Answer",
    subject_field: str = "subject",
    subject_names: Mapping[str, str] | None = None,
    intro: str | None = "以下是关于{subject}的单项选择题，请直接给出正确答案的选项。",
    template: str = "题目：{{ question }}" + _LISTED + "\n答案是：",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """CMMLU in the format of its authors (Li et al. 2023). The arguments are those of ``mmlu``."""
    made: Preprocessor = mmlu(
        question_field=question_field,
        choices_field=choices_field,
        answer_field=answer_field,
        subject_field=subject_field,
        subject_names=subject_names,
        intro=intro,
        template=template,
        fields=fields,
    )
    return made


@registry.preprocessors.register("truthfulqa_mc", version=2)
def truthfulqa_mc(
    *,
    targets: Literal["mc1", "mc2"] = "mc1",
    question_field: str = "question",
    seed: int = 0,
    system_prompt: str | None = None,
    instruction: str | None = INSTRUCTION,
    template: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """TruthfulQA's multiple choice (Lin et al. 2022): one true answer (mc1) or several (mc2).

    The published lists have the true answers first, so options are put into an order by chance: that of a hash of
    seed, question and answer. ``metadata.targets`` holds 1 or 0 for each option; the references are the true letters.

    Args:
        targets: ``mc1`` or ``mc2``: ``<targets>_targets`` of the record, a mapping of answers to 1 or 0.
        question_field: the record's question.
        seed: of the options' order.
        system_prompt: the system message.
        instruction: last paragraph of the user message; null for none.
        template: Jinja text of the user message instead; it sees ``question``, ``options`` and ``record``.
        fields: further fields of the Sample → fields of the record.
    """
    field = f"{targets}_targets"
    as_choice: Preprocessor = multi_choice(
        question_field=question_field,
        choices_field=field,
        answer_field=None,
        system_prompt=system_prompt,
        instruction=instruction,
        template=template,
    )
    extra_fields = FieldMap(fields)

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        labels = _labels(read(record, field), field)
        question = read(record, question_field)
        order = sorted(labels, key=lambda text: sha256_hex(f"{seed}\n{question}\n{text}".encode(errors="replace")))
        sample = as_choice({**record, field: order})
        true = [option_letter(place) for place, text in enumerate(order) if labels[text]]
        unused = ("mc0_targets", "mc1_targets", "mc2_targets", "label")
        out = carry_over(sample, unused)
        out["references"] = true
        out["metadata"] = {
            **sample["metadata"],
            "targets": [labels[text] for text in order],
            "correct_choice": true[0],
        }
        extra_fields.apply(record, out)
        return out

    return to_sample


def _labels(value: Any, field: str) -> dict[str, int]:
    if type(value) is not dict or not value:
        raise RecordRejected(f"{field}: it must be an object of answers to 1 or 0, not {kind_of(value)}.")
    for text, label in value.items():
        if type(label) is not int or label not in (0, 1):
            raise RecordRejected(f"{field}: the label of '{text[:60]}' must be 0 or 1, not {kind_of(label)}.")
    if not any(value.values()):
        raise RecordRejected(f"{field}: no answer is true.")
    return value
