"""The preprocessor for records that are Samples already, or simple questions and answers."""

from collections.abc import Mapping
from typing import Any

from gage_eval import registry
from gage_eval.sample.record import RecordRejected, kind_of
from gage_eval.standardize.base import (
    AnswerRule,
    FieldMap,
    Preprocessor,
    answer_rule,
    build_messages,
    carry_over,
    choices_of,
    first_of,
    object_of,
    read,
    set_options,
    text_of,
)
from gage_eval.standardize.template import QuestionTemplate

QUESTION_FIELDS = ("question", "prompt", "text", "goal")
ANSWER_FIELDS = ("answer", "label", "target")
CHOICES_FIELDS = ("choices", "options")


@registry.preprocessors.register("default", version=1)
def default(
    *,
    question_field: str | None = None,
    answer_field: str | None = None,
    choices_field: str | None = None,
    id_field: str = "id",
    answer_index_base: int = 0,
    answer_split: str | None = None,
    answer_regex: str | None = None,
    answer_strip: str | None = None,
    system_prompt: str | None = None,
    template: str | None = None,
    task_type: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """Samples as they are; question, answer and choices of other records mapped.

    Args:
        question_field: the record's question; by default question, prompt, text or goal.
        answer_field: its answer, one or a list; by default answer, label or target.
        choices_field: its candidates; by default choices or options.
        id_field: its id.
        answer_index_base: what an index as answer counts from, 0 or 1.
        answer_split: the final answer follows the last occurrence of this text, as ``"#### "``.
        answer_regex: the final answer is this expression's last match (its first group).
        answer_strip: characters removed from the final answer, as ``","``.
        system_prompt: the system message.
        template: Jinja text of the user message; it sees ``question``, ``options`` and ``record``.
        task_type: for records that state none.
        fields: further fields of the Sample → fields of the record, as ``{"data_tag.topic": "subject"}``.
    """
    questions = (question_field,) if question_field else QUESTION_FIELDS
    answers = (answer_field,) if answer_field else ANSWER_FIELDS
    choices = (choices_field,) if choices_field else CHOICES_FIELDS
    rule = answer_rule(answer_split, answer_regex, answer_strip)
    user_message = QuestionTemplate(template) if template is not None else None
    extra_fields = FieldMap(fields)

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        if record.get("messages") is not None and question_field is None:
            sample = _complete(record, answers, rule)
        else:
            sample = from_question(record)
        if sample.get("task_type") is None and (kind := record.get("question_type") or task_type) is not None:
            sample["task_type"] = text_of(kind, "question_type")
        sample.pop("question_type", None)
        if id_field != "id":
            identifier = read(record, id_field)
            if identifier is None:
                raise RecordRejected(f"{id_field}: there is no id.")
            sample["id"] = text_of(identifier, id_field)
        extra_fields.apply(record, sample)
        return sample

    def from_question(record: dict[str, Any]) -> dict[str, Any]:
        question_key, question = first_of(record, questions)
        if question is None:
            raise RecordRejected(f"there is no question ({', '.join(questions)}).")
        choices_key, candidates = first_of(record, choices)
        answer_key, answer = first_of(record, answers)
        sample = carry_over(record, (question_key, choices_key, answer_key))
        text = text_of(question, question_key)
        if candidates is not None:
            _add_options(sample, candidates, choices_key, answer, answer_key, answer_index_base)
        elif sample.get("references") is None:
            _add_references(sample, answer, answer_key, rule)
        if user_message is not None:
            text = user_message.render(text, sample.get("options", []), record)
        sample["messages"] = build_messages(text, system_prompt)
        return sample

    return to_sample


def _complete(record: dict[str, Any], answers: tuple[str, ...], rule: AnswerRule) -> dict[str, Any]:
    """A record with messages: its answer may stand where earlier formats had it."""
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
        key, answer = first_of(record, answers)
        sample.pop(key, None)
        _add_references(sample, answer, key, rule)
    return sample


def _holds_messages(choices: Any) -> bool:
    return type(choices) is list and bool(choices) and all(type(item) is dict and "message" in item for item in choices)


def _choice_text(choice: dict[str, Any], index: int) -> Any:
    message = choice["message"]
    content = message.get("content") if type(message) is dict else None
    if type(content) is not str and type(content) is not list:
        raise RecordRejected(f"choices[{index}].message.content: the reference is {kind_of(content)}, not text.")
    return {"answer": content}


def _add_references(sample: dict[str, Any], answer: Any, field: str, rule: AnswerRule) -> None:
    values = answer if type(answer) is list else [] if answer is None else [answer]
    texts = [text_of(value, field) for value in values]
    sample["references"] = [rule(text, field) for text in texts]
    if rule.active and texts:
        # The worked solution that the final answer was taken from; few-shot prompts show it.
        sample["metadata"] = {**object_of(sample, "metadata"), "answer_text": texts[0]}


def _add_options(
    sample: dict[str, Any], candidates: Any, choices_key: str, answer: Any, answer_key: str, index_base: int
) -> None:
    choices = choices_of(candidates, choices_key)
    facts = set_options(sample, choices, answer, index_base, answer_key)
    sample["metadata"] = {**object_of(sample, "metadata"), **facts}
