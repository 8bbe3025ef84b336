"""The preprocessors for plain questions and for conversations."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from gage_eval.base import canonical
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.base import BuiltInPreprocessor, build_messages
from gage_eval.data.standardize.compose import has_role, instructed, without_roles
from gage_eval.data.standardize.default import Default
from gage_eval.data.standardize.fields import answer_in, carry_over, listed, object_of, question_in, read, text_of
from gage_eval.data.standardize.options import (
    AnswerField,
    DefaultTaskType,
    IdField,
    Instruction,
    Question,
    QuestionField,
    RolesToRemove,
    SystemPrompt,
    TaskType,
    Template,
)
from gage_eval.extend import registry


@registry.preprocessors.register("simple", version=2)
class Simple(BuiltInPreprocessor):
    """A question and its answer from named fields; nothing is guessed."""

    question: Question = None
    question_field: QuestionField = "question"
    answer_field: AnswerField = "answer"
    id_field: IdField = "id"
    system_prompt: SystemPrompt = None
    instruction: Instruction = None
    template: Template = None
    task_type: TaskType = "short-answer"

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        text = question_in(record, self.question_field) if self.question is None else self.question
        answer_field = self.answer_field or ""
        answer = answer_in(record, answer_field)
        sample = carry_over(record, ("messages", self.question_field, answer_field, self.id_field))
        if self.user_message is not None:
            text = self.user_message.render(text, [], record)
        references = [text_of(item, answer_field) for item in listed(answer)]
        return self.finished(record, sample, instructed(text, self.instruction), references, self.task_type)


@registry.preprocessors.register("strip_assistant", version=1)
class StripAssistant(BuiltInPreprocessor):
    """Recorded conversations without the assistant's messages, so that the model answers instead.

    The last removed message is the reference of a record that has no references, label or answer. With `last_only` the
    conversation ends before its last message of these roles, as rows for fine-tuning are read; if that message calls
    tools, it is the golden trajectory.
    """

    roles_to_remove: RolesToRemove = ("assistant",)
    last_only: Annotated[
        bool, Field(description="Remove only the last message of these roles and what comes after it.")
    ] = False
    system_prompt: Annotated[str | None, Field(description="A system message for records without one.")] = None
    task_type: DefaultTaskType = None

    @cached_property
    def _default(self) -> Default:
        return Default(task_type=self.task_type, fields=self.fields)

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        roles, system = self.removed_roles, self.system_prompt
        stripped = _without_last(record, roles) if self.last_only else without_roles(record, roles)
        if stripped is not record and all(record.get(name) is None for name in ("references", "label", "answer")):
            stripped = {**stripped, "references": _last_of(record["messages"], roles)}
        if system and type(stripped.get("messages")) is list and not _starts_with_system(stripped["messages"]):
            stripped = {**stripped, "messages": [{"role": "system", "content": system}, *stripped["messages"]]}
        return self._default.to_sample(stripped)


def _without_last(record: dict[str, Any], roles: frozenset[str]) -> dict[str, Any]:
    """The record with its messages before the last one of these roles, and the calls of that one."""
    messages = record.get("messages")
    if type(messages) is not list:
        return record
    last = next((at for at in reversed(range(len(messages))) if has_role(messages[at], roles)), None)
    if last is None:
        return record
    if last == 0:
        raise RecordRejected(f"messages: none is before the last one of {', '.join(sorted(roles))}.")
    kept = {**record, "messages": messages[:last]}
    if messages[last].get("tool_calls") and record.get("golden_trajectories") is None:
        kept["golden_trajectories"] = [[messages[last]]]
    return kept


def _last_of(messages: list[Any], roles: frozenset[str]) -> list[Any]:
    """The last message of some roles as a reference; empty when it has no content."""
    own = [item for item in messages if has_role(item, roles)]
    content = own[-1].get("content") if own else None
    return [] if content is None else [{"answer": content}]


def _starts_with_system(messages: list[Any]) -> bool:
    first = messages[0] if messages else None
    return type(first) is dict and first.get("role") in ("system", "developer")


@registry.preprocessors.register("agent", version=1)
class Agent(BuiltInPreprocessor):
    """A task with tools: their definitions and the golden trajectories stay with the sample."""

    question_field: Annotated[
        str | None,
        Field(description="The record's question; by default its messages, else question, prompt, text or goal."),
    ] = None
    answer_field: Annotated[str | None, Field(description="The final answer; by default answer, label or target.")] = (
        None
    )
    tools_field: Annotated[str, Field(description="Tool definitions in OpenAI's form, as a list or JSON text.")] = (
        "tools"
    )
    trajectories_field: Annotated[
        str, Field(description="One trace of messages or a list of them, or JSON text of these.")
    ] = "golden_trajectories"
    roles_to_remove: RolesToRemove = ()
    system_prompt: Annotated[str | None, Field(description="The system message of records that are questions.")] = None
    task_type: DefaultTaskType = "agent"

    @cached_property
    def _default(self) -> Default:
        return self.like(Default)

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        tools = _parsed(record, self.tools_field)
        trajectories = _parsed(record, self.trajectories_field)
        sample = self._default.to_sample(without_roles(record, self.removed_roles))
        for name in {self.tools_field, self.trajectories_field} - {"tools", "golden_trajectories"}:
            sample.pop(name, None)
        if tools is not None:
            sample["tools"] = tools
        if trajectories is not None:
            flat = type(trajectories) is list and any(type(item) is dict for item in trajectories)
            sample["golden_trajectories"] = [trajectories] if flat else trajectories
        return sample


def _parsed(record: Mapping[str, Any], field: str) -> Any:
    """A field that may be JSON text."""
    value = read(record, field)
    if type(value) is not str:
        return value
    try:
        return canonical.decode(value)
    except ValueError:
        raise RecordRejected(f"{field}: it is a text that is not JSON.") from None


@registry.preprocessors.register("mt_bench", version=1)
class MtBench(BuiltInPreprocessor):
    """Questions asked one after another, each after the model's answer to the previous one (MT-bench).

    ``metadata.turns`` is true, which makes the kind of the prepared row ``turns``.
    """

    turns_field: Annotated[str, Field(description="The list of questions.")] = "turns"
    references_field: Annotated[
        str, Field(description="The list of reference answers, one per turn, if there are any.")
    ] = "reference"
    id_field: IdField = "question_id"
    category_field: Annotated[str, Field(description="What goes into `data_tag.category`.")] = "category"
    category_params: Annotated[
        Mapping[str, Mapping[str, Any]] | None,
        Field(description="Sampling parameters of the samples of a category, as `{math: {temperature: 0}}`."),
    ] = None
    system_prompt: SystemPrompt = None
    task_type: TaskType = "dialogue"

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        turns = read(record, self.turns_field)
        if type(turns) is not list or not turns:
            raise RecordRejected(f"{self.turns_field}: it must be a list of questions.")
        first, *later = (text_of(turn, f"{self.turns_field}[{index}]") for index, turn in enumerate(turns))
        references = read(record, self.references_field)
        used = (self.turns_field, self.references_field, self.id_field, self.category_field)
        sample = carry_over(record, used)
        messages = build_messages(first, self.system_prompt)
        sample["messages"] = [*messages, *({"role": "user", "content": text} for text in later)]
        sample["references"] = [text_of(answer, self.references_field) for answer in listed(references)]
        sample.pop("label", None)
        sample["metadata"] = {**object_of(sample, "metadata"), "turns": True}
        sample["task_type"] = self.task_type
        category = read(record, self.category_field)
        if category is not None:
            name = text_of(category, self.category_field)
            sample["data_tag"] = {**object_of(sample, "data_tag"), "category": name}
            if (params := (self.category_params or {}).get(name)) is not None:
                sample["sampling_params"] = {**params, **object_of(sample, "sampling_params")}
        self.field_map.apply(record, sample)
        return sample
