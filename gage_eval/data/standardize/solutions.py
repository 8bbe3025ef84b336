"""Preprocessors for problems with a worked-out or checked answer: GSM8K, MATH, BBH, IFEval."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from gage_eval.base.boxed import boxed_answer
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.answers import AnswerRule, answer_rule
from gage_eval.data.standardize.base import BuiltInPreprocessor, build_messages
from gage_eval.data.standardize.compose import instructed
from gage_eval.data.standardize.default import Default
from gage_eval.data.standardize.fields import carry_over, first_of, object_of, read, required, text_of
from gage_eval.data.standardize.options import IdField, Instruction, QuestionField, SystemPrompt
from gage_eval.data.standardize.simple import Simple
from gage_eval.extend import registry


@registry.preprocessors.register("gsm8k", version=1)
class Gsm8k(BuiltInPreprocessor):
    """GSM8K (Cobbe et al. 2021): the reference is the number after ``####``; the solution stays in the metadata."""

    question_field: QuestionField = "question"
    answer_field: Annotated[str, Field(description="The solution, the number after `#### ` at its end.")] = "answer"
    system_prompt: SystemPrompt = None
    instruction: Instruction = None

    @cached_property
    def _default(self) -> Default:
        return self.like(Default, answer_split="#### ", answer_strip=",", task_type="short-answer")

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        sample = self._default.to_sample(record)
        *before, user = sample["messages"]
        sample["messages"] = [*before, {**user, "content": instructed(user["content"], self.instruction)}]
        return sample


@registry.preprocessors.register("math", version=1)
class Math(BuiltInPreprocessor):
    """MATH (Hendrycks et al. 2021): the reference is the answer in LaTeX, else the last boxed part of the solution.

    Subject (or type) and level go into ``data_tag``, the solution into the metadata.
    """

    question_field: QuestionField = "problem"
    answer_field: Annotated[str, Field(description="The answer.")] = "answer"
    solution_field: Annotated[str, Field(description="The worked solution.")] = "solution"
    id_field: IdField = "unique_id"
    system_prompt: SystemPrompt = None
    instruction: Instruction = "Put your final answer within \\boxed{}."

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        fields = (self.question_field, self.answer_field, self.solution_field)
        problem = required(record, self.question_field, "problem", "question_field")
        answer, solution = (read(record, name) for name in fields[1:])
        worked = None if solution is None else text_of(solution, self.solution_field)
        if answer is None and worked is not None:
            answer = boxed_answer(worked)
        if answer is None:
            raise RecordRejected(
                f"there is no answer in {self.answer_field}, and none is boxed in {self.solution_field}."
            )
        subject_key, subject = first_of(record, ("subject", "type"))
        sample = carry_over(record, (*fields, self.id_field, subject_key, "level", "messages"))
        text = instructed(text_of(problem, self.question_field), self.instruction)
        tags = {"subject": subject, "level": read(record, "level")}
        sample["data_tag"] = {
            **object_of(sample, "data_tag"),
            **{name: text_of(value, name) for name, value in tags.items() if value is not None},
        }
        facts = {} if worked is None else {"answer_text": worked}
        return self.finished(record, sample, text, [text_of(answer, self.answer_field)], "short-answer", facts)


@registry.preprocessors.register("bbh", version=1)
class Bbh(Simple):
    """BIG-Bench Hard (Suzgun et al. 2022): the task goes into ``data_tag.task``, the target is not changed."""

    question_field: QuestionField = "input"
    answer_field: Annotated[str | None, Field(description="The target: `(B)`, `True`, `7` or a list of words.")] = (
        "target"
    )
    task_field: Annotated[
        str, Field(description="The task; the loader's `source_field` can fill it from the file's name.")
    ] = "task"
    descriptions: Annotated[
        Mapping[str, str] | None, Field(description="A task's description, the system message of its questions.")
    ] = None
    answer_regex: Annotated[
        str | None, Field(description="The target is this expression's last match (its first group) in the answer.")
    ] = None

    def check(self) -> None:
        super().check()
        _ = self._rule

    @cached_property
    def _rule(self) -> AnswerRule:
        return answer_rule(None, self.answer_regex, None)

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        sample = super().to_sample(record)
        if self._rule.active:
            sample["references"] = [self._rule(text, self.answer_field or "") for text in sample["references"]]
        task = read(record, self.task_field)
        if task is not None:
            sample.pop(self.task_field, None)
            name = text_of(task, self.task_field)
            sample["data_tag"] = {"task": name, **object_of(sample, "data_tag")}
            description = (self.descriptions or {}).get(name)
            if description is not None:
                sample["messages"] = build_messages(sample["messages"][-1]["content"], description)
        return sample


@registry.preprocessors.register("ifeval", version=1)
class IfEval(BuiltInPreprocessor):
    """IFEval (Zhou et al. 2023): a prompt with instructions that a program checks; there are no references.

    ``instruction_id_list`` and ``kwargs`` stay with the sample, where the metric ``ifeval`` reads them.
    """

    question_field: QuestionField = "prompt"
    id_field: IdField = "key"
    system_prompt: SystemPrompt = None

    @cached_property
    def _simple(self) -> Simple:
        return self.like(Simple, answer_field=None, task_type="instruction-following")

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        names, arguments = record.get("instruction_id_list"), record.get("kwargs")
        if type(names) is not list or type(arguments) is not list or len(names) != len(arguments):
            raise RecordRejected("instruction_id_list and kwargs must be lists of one length.")
        return self._simple.to_sample(record)
