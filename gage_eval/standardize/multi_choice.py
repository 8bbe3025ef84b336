"""Preprocessors for multiple-choice questions (PIQA, MMLU, ARC and the like)."""

from collections.abc import Mapping, Sequence
from typing import Any

from gage_eval import registry
from gage_eval.errors import InputError
from gage_eval.sample.record import RecordRejected
from gage_eval.standardize.base import (
    Choice,
    FieldMap,
    Preprocessor,
    build_messages,
    carry_over,
    choices_of,
    object_of,
    read,
    set_options,
    text_of,
)
from gage_eval.standardize.template import QuestionTemplate

INSTRUCTION = "Answer with the letter of the correct option only."


@registry.preprocessors.register("multi_choice", version=2)
def multi_choice(
    *,
    question_field: str = "question",
    choices_field: str | Sequence[str] | None = None,
    options_field: str | Sequence[str] | None = None,
    answer_field: str | None = "answer",
    answer_index_base: int = 0,
    id_field: str = "id",
    system_prompt: str | None = None,
    instruction: str | None = INSTRUCTION,
    template: str | None = None,
    task_type: str = "multiple-choice",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """Multiple choice with lettered options and the prompt built from them.

    Args:
        question_field: the record's question.
        choices_field: its candidates, or a list of fields that hold one each. Default ``choices``.
        options_field: another name for choices_field.
        answer_field: the correct one as letter, index or text; null for sets without answers.
        answer_index_base: what an index counts from, 0 or 1.
        id_field: the record's id.
        system_prompt: the system message.
        instruction: last paragraph of the user message; null for none.
        template: Jinja text of the user message instead of the standard one; it sees ``question``,
            ``options`` (id and content each), and ``record``.
        task_type: the samples' task type.
        fields: further fields of the Sample → fields of the record, as ``{"data_tag.topic": "subject"}``.
    """
    structure = multi_choice_struct_only(
        question_field=question_field,
        choices_field=choices_field,
        options_field=options_field,
        answer_field=answer_field,
        answer_index_base=answer_index_base,
        id_field=id_field,
        task_type=task_type,
        fields=fields,
    )
    user_message = QuestionTemplate(template) if template is not None else None

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        sample = structure(record)
        question, options = sample["metadata"]["question_text"], sample["options"]
        if user_message is not None:
            text = user_message.render(question, options, record)
        else:
            text = _standard_text(question, options, instruction)
        return {**sample, "messages": build_messages(text, system_prompt)}

    return to_sample


@registry.preprocessors.register("multi_choice_struct_only", version=2)
def multi_choice_struct_only(
    *,
    question_field: str = "question",
    choices_field: str | Sequence[str] | None = None,
    options_field: str | Sequence[str] | None = None,
    answer_field: str | None = "answer",
    answer_index_base: int = 0,
    id_field: str = "id",
    task_type: str = "multiple-choice",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """Multiple choice without messages: a prompt of the config renders them.

    ``metadata`` gets question_text, option_map, correct_choice, and the names of the fields they came from.
    The arguments are those of ``multi_choice``.
    """
    if choices_field is not None and options_field is not None and choices_field != options_field:
        raise InputError("choices_field and options_field are one argument by two names; give one of them.")
    if answer_index_base not in (0, 1):
        raise InputError(f"answer_index_base: it is 0 or 1, not {answer_index_base!r}.")
    source = choices_field if choices_field is not None else options_field
    source = "choices" if source is None else source
    extra_fields = FieldMap(fields)

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        question = _required(record, question_field, "question")
        choices = _choices(record, source)
        sample = carry_over(
            record, [question_field, answer_field or "", *([source] if isinstance(source, str) else source)]
        )
        answer = None if answer_field is None else _required(record, answer_field, "answer")
        sample["metadata"] = {
            **object_of(sample, "metadata"),
            **set_options(sample, choices, answer, answer_index_base, answer_field or ""),
            "question_text": text_of(question, question_field),
            "question_field": question_field,
            "choices_field": source if isinstance(source, str) else list(source),
            "answer_field": answer_field,
        }
        sample["messages"] = []
        if sample.get("task_type") is None:
            sample["task_type"] = task_type
        if id_field != "id":
            sample["id"] = text_of(_required(record, id_field, "id"), id_field)
        extra_fields.apply(record, sample)
        return sample

    return to_sample


def _required(record: Mapping[str, Any], field: str, what: str) -> Any:
    value = read(record, field)
    if value is None:
        raise RecordRejected(f"{field}: there is no {what}.")
    return value


def _choices(record: Mapping[str, Any], source: str | Sequence[str]) -> list[Choice]:
    if isinstance(source, str):
        return choices_of(_required(record, source, "list of choices"), source)
    # As they stand, blanks at their ends too: a log-likelihood is that of the candidate as the dataset has it.
    return choices_of([text_of(_required(record, field, "choice"), field) for field in source], "choices")


def _standard_text(question: str, options: list[dict[str, str]], instruction: str | None) -> str:
    listed = "\n".join(f"{option['id']}. {option['content'].strip()}" for option in options)
    return f"{question}\n\n{listed}\n\n{instruction}" if instruction else f"{question}\n\n{listed}"
