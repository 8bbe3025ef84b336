"""The preprocessors for plain questions and for conversations."""

from collections.abc import Mapping, Sequence
from typing import Any

from gage_eval import canonical, registry
from gage_eval.sample.record import RecordRejected
from gage_eval.standardize.base import FieldMap, Preprocessor, build_messages, carry_over, object_of, read, text_of
from gage_eval.standardize.compose import check_roles, instructed, without_roles
from gage_eval.standardize.default import default
from gage_eval.standardize.template import QuestionTemplate


@registry.preprocessors.register("simple", version=1)
def simple(
    *,
    question_field: str = "question",
    answer_field: str | None = "answer",
    id_field: str = "id",
    system_prompt: str | None = None,
    instruction: str | None = None,
    template: str | None = None,
    task_type: str = "short-answer",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """A question and its answer, from named fields and nothing guessed.

    Args:
        question_field: the record's question.
        answer_field: its answer, one or a list; null for sets without answers.
        id_field: its id.
        system_prompt: the system message.
        instruction: last paragraph of the user message.
        template: Jinja text of the user message; it sees ``question`` and ``record``.
        task_type: the samples' task type.
        fields: further fields of the Sample → fields of the record, as ``{"data_tag.topic": "subject"}``.
    """
    user_message = QuestionTemplate(template) if template is not None else None
    extra_fields = FieldMap(fields, id_field)

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        question = read(record, question_field)
        if question is None:
            raise RecordRejected(f"{question_field}: there is no question.")
        answer = None if answer_field is None else read(record, answer_field)
        if answer_field is not None and answer is None:
            raise RecordRejected(f"{answer_field}: there is no answer.")
        sample = carry_over(record, ("messages", question_field, answer_field or "", id_field))
        text = text_of(question, question_field)
        if user_message is not None:
            text = user_message.render(text, [], record)
        sample["messages"] = build_messages(instructed(text, instruction), system_prompt)
        answers = answer if type(answer) is list else [] if answer is None else [answer]
        sample["references"] = [text_of(item, answer_field or "") for item in answers]
        sample["task_type"] = task_type
        extra_fields.apply(record, sample)
        return sample

    return to_sample


@registry.preprocessors.register("strip_assistant", version=1)
def strip_assistant(
    *,
    roles_to_remove: Sequence[str] = ("assistant",),
    system_prompt: str | None = None,
    task_type: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """Recorded conversations without the assistant's messages, so that the model gives its own.

    The last message that is taken out is the reference of a record that names no references, label or answer.

    Args:
        roles_to_remove: whose messages are taken out.
        system_prompt: a system message for records that have none.
        task_type: for records that state none.
        fields: further fields of the Sample → fields of the record.
    """
    roles = check_roles(roles_to_remove)
    as_sample: Preprocessor = default(task_type=task_type, fields=fields)

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        stripped = without_roles(record, roles)
        if stripped is not record and all(record.get(name) is None for name in ("references", "label", "answer")):
            stripped = {**stripped, "references": _last_of(record["messages"], roles)}
        if system_prompt and type(stripped.get("messages")) is list and not _starts_with_system(stripped["messages"]):
            stripped = {**stripped, "messages": [{"role": "system", "content": system_prompt}, *stripped["messages"]]}
        return as_sample(stripped)

    return to_sample


def _last_of(messages: list[Any], roles: frozenset[str]) -> list[Any]:
    """The last message of some roles as a reference; none when it holds no content."""
    own = [item for item in messages if type(item) is dict and item.get("role") in roles]
    content = own[-1].get("content") if own else None
    return [] if content is None else [{"answer": content}]


def _starts_with_system(messages: list[Any]) -> bool:
    first = messages[0] if messages else None
    return type(first) is dict and first.get("role") in ("system", "developer")


@registry.preprocessors.register("agent", version=1)
def agent(
    *,
    question_field: str | None = None,
    answer_field: str | None = None,
    tools_field: str = "tools",
    trajectories_field: str = "golden_trajectories",
    roles_to_remove: Sequence[str] = (),
    system_prompt: str | None = None,
    task_type: str = "agent",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """A task with tools: their definitions and the golden trajectories stay with the sample.

    Args:
        question_field: the record's question; by default its messages, else question, prompt, text or goal.
        answer_field: its final answer; by default answer, label or target.
        tools_field: tool definitions in OpenAI's form, as a list or as JSON text.
        trajectories_field: one trace of messages or a list of them, or JSON text of these.
        roles_to_remove: whose messages are taken out of the conversation.
        system_prompt: the system message of records that are questions.
        task_type: for records that state none.
        fields: further fields of the Sample → fields of the record.
    """
    roles = check_roles(roles_to_remove)
    as_sample: Preprocessor = default(
        question_field=question_field,
        answer_field=answer_field,
        system_prompt=system_prompt,
        task_type=task_type,
        fields=fields,
    )

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        tools = _parsed(record, tools_field)
        trajectories = _parsed(record, trajectories_field)
        sample = as_sample(without_roles(record, roles))
        for name in {tools_field, trajectories_field} - {"tools", "golden_trajectories"}:
            sample.pop(name, None)
        if tools is not None:
            sample["tools"] = tools
        if trajectories is not None:
            flat = type(trajectories) is list and any(type(item) is dict for item in trajectories)
            sample["golden_trajectories"] = [trajectories] if flat else trajectories
        return sample

    return to_sample


def _parsed(record: Mapping[str, Any], field: str) -> Any:
    """A field that may be JSON text."""
    value = read(record, field)
    if type(value) is not str:
        return value
    try:
        return canonical.decode(value)
    except ValueError:
        raise RecordRejected(f"{field}: it is a text and no JSON.") from None


@registry.preprocessors.register("mt_bench", version=1)
def mt_bench(
    *,
    turns_field: str = "turns",
    references_field: str = "reference",
    id_field: str = "question_id",
    category_field: str = "category",
    system_prompt: str | None = None,
    task_type: str = "dialogue",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """Questions asked one after another, each after the model's answer to the one before (MT-bench).

    ``metadata.turns`` is true, which makes the prepared row one of kind ``turns``.

    Args:
        turns_field: the list of questions.
        references_field: the list of reference answers, one a turn, where there are any.
        id_field: the record's id.
        category_field: what goes into ``data_tag.category``.
        system_prompt: the system message.
        task_type: the samples' task type.
        fields: further fields of the Sample → fields of the record.
    """
    extra_fields = FieldMap(fields, id_field)

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        turns = read(record, turns_field)
        if type(turns) is not list or not turns:
            raise RecordRejected(f"{turns_field}: it must be a list of questions.")
        texts = [text_of(turn, f"{turns_field}[{place}]") for place, turn in enumerate(turns)]
        references = read(record, references_field)
        answers = references if type(references) is list else [] if references is None else [references]
        sample = carry_over(record, (turns_field, references_field, id_field, category_field))
        first, *later = texts
        sample["messages"] = [*build_messages(first, system_prompt), *({"role": "user", "content": t} for t in later)]
        sample["references"] = [text_of(answer, references_field) for answer in answers]
        sample.pop("label", None)
        sample["metadata"] = {**object_of(sample, "metadata"), "turns": True}
        sample["task_type"] = task_type
        category = read(record, category_field)
        if category is not None:
            sample["data_tag"] = {**object_of(sample, "data_tag"), "category": text_of(category, category_field)}
        extra_fields.apply(record, sample)
        return sample

    return to_sample
