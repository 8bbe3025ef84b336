"""Preprocessors for problems with a worked-out or checked answer: GSM8K, MATH, BBH, IFEval, HumanEval."""

from collections.abc import Mapping
from typing import Any

from gage_eval import registry
from gage_eval.extract.boxed import boxed_answer
from gage_eval.sample.record import RecordRejected
from gage_eval.standardize.base import (
    FieldMap,
    Preprocessor,
    build_messages,
    carry_over,
    first_of,
    object_of,
    read,
    text_of,
)
from gage_eval.standardize.compose import instructed
from gage_eval.standardize.default import default
from gage_eval.standardize.simple import simple


@registry.preprocessors.register("gsm8k", version=1)
def gsm8k(
    *,
    question_field: str = "question",
    answer_field: str = "answer",
    system_prompt: str | None = None,
    instruction: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """GSM8K (Cobbe et al. 2021): the reference is the number after ``####``; the solution stays in the metadata.

    Args:
        question_field: the record's question.
        answer_field: its solution, the number after ``#### `` at its end.
        system_prompt: the system message.
        instruction: last paragraph of the user message.
        fields: further fields of the Sample → fields of the record.
    """
    as_sample: Preprocessor = default(
        question_field=question_field,
        answer_field=answer_field,
        answer_split="#### ",
        answer_strip=",",
        system_prompt=system_prompt,
        task_type="short-answer",
        fields=fields,
    )

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        sample = as_sample(record)
        user = sample["messages"][-1]
        sample["messages"] = [*sample["messages"][:-1], {**user, "content": instructed(user["content"], instruction)}]
        return sample

    return to_sample


@registry.preprocessors.register("math", version=2)
def math(
    *,
    question_field: str = "problem",
    answer_field: str = "answer",
    solution_field: str = "solution",
    id_field: str = "unique_id",
    system_prompt: str | None = None,
    instruction: str | None = "Put your final answer within \\boxed{}.",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """MATH (Hendrycks et al. 2021): the reference is the answer in LaTeX, else what the solution boxes last.

    Subject (or type) and level go into ``data_tag``, the solution into the metadata.

    Args:
        question_field: the record's problem.
        answer_field: its answer.
        solution_field: its solution.
        id_field: its id.
        system_prompt: the system message.
        instruction: last paragraph of the user message; null for none.
        fields: further fields of the Sample → fields of the record.
    """
    extra_fields = FieldMap(fields, id_field)

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        problem, answer, solution = (read(record, name) for name in (question_field, answer_field, solution_field))
        if problem is None:
            raise RecordRejected(f"{question_field}: there is no problem.")
        worked = None if solution is None else text_of(solution, solution_field)
        if answer is None and worked is not None:
            answer = boxed_answer(worked)
        if answer is None:
            raise RecordRejected(f"there is no answer in {answer_field}, and none is boxed in {solution_field}.")
        subject_key, subject = first_of(record, ("subject", "type"))
        used = (question_field, answer_field, solution_field, id_field, subject_key, "level", "messages")
        sample = carry_over(record, used)
        sample["messages"] = build_messages(instructed(text_of(problem, question_field), instruction), system_prompt)
        sample["references"] = [text_of(answer, answer_field)]
        sample["task_type"] = "short-answer"
        if worked is not None:
            sample["metadata"] = {**object_of(sample, "metadata"), "answer_text": worked}
        tags = {"subject": subject, "level": read(record, "level")}
        sample["data_tag"] = {
            **object_of(sample, "data_tag"),
            **{name: text_of(value, name) for name, value in tags.items() if value is not None},
        }
        extra_fields.apply(record, sample)
        return sample

    return to_sample


@registry.preprocessors.register("bbh", version=1)
def bbh(
    *,
    question_field: str = "input",
    answer_field: str = "target",
    task_field: str = "task",
    system_prompt: str | None = None,
    instruction: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """BIG-Bench Hard (Suzgun et al. 2022): the task goes into ``data_tag.task``, the target stays as it is.

    Args:
        question_field: the record's input.
        answer_field: its target, as ``(B)``, ``True``, ``7`` or a list of words.
        task_field: the task; the loader's ``source_field`` can fill it from the file's name.
        system_prompt: the system message.
        instruction: last paragraph of the user message.
        fields: further fields of the Sample → fields of the record.
    """
    as_sample: Preprocessor = simple(
        question_field=question_field,
        answer_field=answer_field,
        system_prompt=system_prompt,
        instruction=instruction,
        fields=fields,
    )

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        sample = as_sample(record)
        task = read(record, task_field)
        if task is not None:
            sample.pop(task_field, None)
            sample["data_tag"] = {"task": text_of(task, task_field), **object_of(sample, "data_tag")}
        return sample

    return to_sample


@registry.preprocessors.register("ifeval", version=1)
def ifeval(
    *,
    question_field: str = "prompt",
    id_field: str = "key",
    system_prompt: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """IFEval (Zhou et al. 2023): a prompt with instructions that a program checks; there are no references.

    ``instruction_id_list`` and ``kwargs`` stay with the sample, where the metric ``ifeval`` reads them.

    Args:
        question_field: the record's prompt.
        id_field: its id.
        system_prompt: the system message.
        fields: further fields of the Sample → fields of the record.
    """
    as_sample: Preprocessor = simple(
        question_field=question_field,
        answer_field=None,
        id_field=id_field,
        system_prompt=system_prompt,
        task_type="instruction-following",
        fields=fields,
    )

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        names, arguments = record.get("instruction_id_list"), record.get("kwargs")
        if type(names) is not list or type(arguments) is not list or len(names) != len(arguments):
            raise RecordRejected("instruction_id_list and kwargs must be lists of one length.")
        return as_sample(record)

    return to_sample


@registry.preprocessors.register("humaneval", version=1)
def humaneval(
    *,
    prompt_field: str = "prompt",
    id_field: str = "task_id",
    system_prompt: str | None = None,
    instruction: str | None = "Complete this Python function. Answer with the whole function in one code block.",
    fields: Mapping[str, str] | None = None,
) -> Preprocessor:
    """HumanEval (Chen et al. 2021): a function to complete, with its tests.

    ``metadata`` gets ``prompt``, ``entry_point`` and ``test``, which whoever runs the answer needs; the canonical
    solution is the reference.

    Args:
        prompt_field: the signature and docstring.
        id_field: the record's id.
        system_prompt: the system message.
        instruction: first paragraph of the user message; null sends the prompt alone.
        fields: further fields of the Sample → fields of the record.
    """
    extra_fields = FieldMap(fields, id_field)

    def to_sample(record: dict[str, Any]) -> dict[str, Any]:
        facts = {
            name: text_of(read(record, field), field)
            for name, field in (("prompt", prompt_field), ("entry_point", "entry_point"), ("test", "test"))
        }
        solution = read(record, "canonical_solution")
        used = (prompt_field, "entry_point", "test", "canonical_solution", id_field, "label", "messages")
        sample = carry_over(record, used)
        code = facts["prompt"]
        text = f"{instruction}\n\n```python\n{code}\n```" if instruction else code
        sample["messages"] = build_messages(text, system_prompt)
        sample["references"] = [] if solution is None else [text_of(solution, "canonical_solution")]
        sample["metadata"] = {**object_of(sample, "metadata"), **facts}
        sample["task_type"] = "code-generation"
        extra_fields.apply(record, sample)
        return sample

    return to_sample
