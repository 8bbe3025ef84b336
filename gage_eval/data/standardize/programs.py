"""Preprocessors for problems that a program solves: HumanEval, MBPP, their plus sets.

What runs with an answer goes into the metadata: ``entry_point`` (the function that the tests call), ``prelude``
(trusted code that the answer has, too) and ``tests``.
"""

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from gage_eval.base.python_syntax import module_tree
from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.standardize.base import BuiltInPreprocessor
from gage_eval.data.standardize.fields import carry_over, object_of, read, text_of
from gage_eval.data.standardize.options import IdField, QuestionField, SystemPrompt
from gage_eval.data.standardize.simple import Simple
from gage_eval.extend import registry

_Inputs: TypeAlias = list[Any]


@registry.preprocessors.register("humaneval", version=2)
class HumanEval(BuiltInPreprocessor):
    """HumanEval (Chen et al. 2021): a function to complete, with its tests.

    ``metadata`` gets ``prompt``, which is also the answer's prelude, ``entry_point`` and ``tests``. The canonical
    solution is the reference.
    """

    prompt_field: Annotated[str, Field(description="The signature and docstring.")] = "prompt"
    id_field: IdField = "task_id"
    system_prompt: SystemPrompt = None
    instruction: Annotated[
        str | None, Field(description="The first paragraph of the user message; null sends the prompt alone.")
    ] = "Complete this Python function. Answer with the whole function in one code block."

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        fields = {"prompt": self.prompt_field, "entry_point": "entry_point"}
        facts = {name: text_of(read(record, field), field) for name, field in fields.items()}
        facts |= self.tests_of(record, facts["prompt"], facts["entry_point"])
        solution = read(record, "canonical_solution")
        used = (*fields.values(), "canonical_solution", self.id_field, "label", "messages", *_TESTS)
        sample = carry_over(record, used)
        code = facts["prompt"]
        text = f"{self.instruction}\n\n```python\n{code}\n```" if self.instruction else code
        references = [] if solution is None else [text_of(solution, "canonical_solution")]
        return self.finished(record, sample, text, references, "code-generation", facts)

    def tests_of(self, record: Mapping[str, Any], prompt: str, entry: str) -> dict[str, str]:
        """What the metadata get besides prompt and entry point."""
        return {"tests": f"{text_of(read(record, 'test'), 'test')}\ncheck({entry})\n"}


@registry.preprocessors.register("humaneval_plus", version=2)
class HumanEvalPlus(HumanEval):
    """HumanEval+ (Liu et al. 2023, evalplus): HumanEval with many more inputs, checked against the reference solution.

    ``metadata`` gets ``base_tests``, on HumanEval's own inputs, ``tests``, on all inputs, and ``expected``, a program
    that prints what the reference solution returns for them. Without its output, the tests call the reference solution
    in their own process.
    """

    def tests_of(self, record: Mapping[str, Any], prompt: str, entry: str) -> dict[str, str]:
        solution = prompt + text_of(read(record, "canonical_solution"), "canonical_solution")
        return _reference_tests(record, solution, entry, is_mbpp=False)


@registry.preprocessors.register("mbpp", version=3)
class Mbpp(BuiltInPreprocessor):
    """MBPP (Austin et al. 2021): a task in a sentence, and the tests that its Python function must pass.

    `metadata` gets `entry_point`, `prelude` and `tests`, and the list of the tests as `test_list`. The authors'
    solution is the reference; few-shot examples show it with `[DONE]` after it. Records of the sanitized set have
    `test_imports`, and the task in `prompt`.
    """

    question_field: QuestionField = "text"
    id_field: IdField = "task_id"
    system_prompt: SystemPrompt = None
    # Jinja removes the last line end.
    template: Annotated[str, Field(description="Jinja text of the user message; it sees `question` and `record`.")] = (
        "You are an expert Python programmer, and here is your task: {{ question }} Your code should pass these tests:"
        "\n\n{{ record.test_list | join('\n') }}\n[BEGIN]\n\n"
    )

    @cached_property
    def _simple(self) -> Simple:
        return self.like(Simple, answer_field="code", task_type="code-generation")

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        tests = read(record, "test_list")
        if type(tests) is not list or not tests:
            raise RecordRejected("test_list: it must be a list of assertions.")
        tests = [text_of(test, "test_list") for test in tests]
        sample = self._simple.to_sample(record)
        setup, imports = read(record, "test_setup_code"), read(record, "test_imports") or []
        if type(imports) is not list:
            raise RecordRejected("test_imports: it must be a list of statements.")
        imports = [text_of(statement, "test_imports") for statement in imports]
        solutions = sample["references"]
        sample["metadata"] = {
            **object_of(sample, "metadata"),
            "test_list": tests,
            "entry_point": _called(tests, solutions[0] if solutions else ""),
            "prelude": "\n".join([*imports, *([] if setup is None else [text_of(setup, "test_setup_code")])]),
            "tests": "\n".join(tests),
        }
        if solutions:
            sample["metadata"]["answer_text"] = f"{solutions[0]}\n[DONE]"
        for name in ("test_list", "test_setup_code", "test_imports"):
            sample.pop(name, None)
        return sample


@registry.preprocessors.register("mbpp_plus", version=3)
class MbppPlus(BuiltInPreprocessor):
    """MBPP+ (Liu et al. 2023, evalplus): MBPP with many more inputs, checked against the reference solution.

    Its JSON has lists for tuples and sets, and the loader reads infinite numbers as texts (``constants: text``); they
    are what they were by the task's number. ``metadata`` gets ``entry_point``, ``base_tests``, on MBPP's own inputs,
    ``tests``, on all inputs, and ``expected``, a program that prints what the reference solution returns for them.
    """

    id_field: IdField = "task_id"
    system_prompt: SystemPrompt = None
    instruction: Annotated[str | None, Field(description="The first paragraph of the user message; null for none.")] = (
        "Please provide a self-contained Python script that solves the following problem in a markdown code block:"
    )

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        names = ("prompt", "entry_point", "canonical_solution")
        prompt, entry, solution = (text_of(read(record, name), name) for name in names)
        number = text_of(read(record, self.id_field), self.id_field).rpartition("/")[2]
        form = _FORMS.get(int(number) if number.isascii() and number.isdigit() else -1)
        tests = _reference_tests(record, solution, entry, is_mbpp=True, form=form)
        sample = carry_over(record, (*names, self.id_field, "label", "messages", "assertion", *_TESTS))
        text = f"{self.instruction}\n```\n{prompt.strip()}\n```" if self.instruction else prompt
        return self.finished(record, sample, text, [solution], "code-generation", {"entry_point": entry, **tests})


_TESTS = ("test", "base_input", "plus_input", "atol", "contract")


# Values cross from one box to the other as they do between an answer and its tests.
_DUMPED = """
from gage_eval.box.inside.values import dump
to_data = lambda value: dump(value, lambda opaque: 0)
"""
_LOADED = """
import json
from gage_eval.box.inside.values import load
expected = globals().get("EXPECTED")
if expected is not None:
    expected = load(json.loads(expected), lambda opaque: object())
"""


@cache
def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _reference_tests(
    record: Mapping[str, Any],
    solution: str,
    entry: str,
    *,
    is_mbpp: bool,
    form: Callable[[_Inputs], Sequence[Any]] | None = None,
) -> dict[str, str]:
    """The tests on the base inputs, and on all inputs: one call per line; and the program that calls the reference."""
    atol = read(record, "atol") or 0
    if type(atol) not in (int, float):
        raise RecordRejected(f"atol: it must be a number, not {kind_of(atol)}.")
    check = f"check = AgainstReference({solution!r}, {entry!r}, {entry}, {atol!r}, {is_mbpp}, expected)"
    head = f"{_source('reference_tests.py')}\n{_LOADED}\n{check}\n"
    show = f"check = ReferenceOutputs({solution!r}, {entry!r}, to_data)"
    outputs = f"{_source('reference_outputs.py')}\n{_DUMPED}\n{show}\n"
    calls = {name: _calls(read(record, name), name, form) for name in ("base_input", "plus_input")}
    return {
        "base_tests": head + calls["base_input"],
        "tests": head + calls["base_input"] + calls["plus_input"],
        "expected": f"{outputs}{calls['base_input']}{calls['plus_input']}check.show()\n",
    }


def _calls(inputs: Any, field: str, form: Callable[[_Inputs], Sequence[Any]] | None) -> str:
    # No inputs are an empty object in some rows.
    if type(inputs) is not list and inputs != {}:
        raise RecordRejected(f"{field}: it must be a list of lists of arguments, not {kind_of(inputs)}.")
    try:
        made = [arguments if form is None else form(arguments) for arguments in inputs]
        return "".join(f"check(*{list(arguments)!r})\n" for arguments in made)
    except (TypeError, ValueError, IndexError, AttributeError):
        raise RecordRejected(f"{field}: its arguments have not the form of this task.") from None


def _rows(value: Any) -> list[tuple[Any, ...]]:
    return [tuple(item) for item in value]


def _deep(value: Any) -> Any:
    return tuple(_deep(item) for item in value) if type(value) is list else value


class _Infinite(float):
    """An infinite number, which the text of the tests has as a number."""

    def __repr__(self) -> str:
        return "1e999" if self > 0 else "-1e999"


_OF_TASKS: Sequence[tuple[Callable[[_Inputs], Sequence[Any]], Sequence[int]]] = (
    (
        _rows,
        (
            *(2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424),
            *(429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809),
        ),
    ),
    (
        lambda inputs: [_rows(argument) for argument in inputs],
        (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780),
    ),
    (lambda inputs: [_rows(inputs[0]), *inputs[1:]], (75, 413, 444, 753)),
    (lambda inputs: [inputs[0], tuple(inputs[1])], (106, 750)),
    (lambda inputs: [[set(item) if type(item) is list and item else {} for item in inputs[0]]], (115,)),
    (lambda inputs: [float(inputs[0]), complex(inputs[1])], (124,)),
    (lambda inputs: [tuple(inputs[0]), *inputs[1:]], (250, 307, 405, 446, 617, 720, 763, 808)),
    (lambda inputs: [tuple(_rows(argument)) for argument in inputs], (259, 401, 445)),
    (lambda inputs: [tuple(tuple(item) if type(item) is list else item for item in inputs[0])], (278,)),
    (lambda inputs: [{key: tuple(value) for key, value in inputs[0].items()}, *inputs[1:]], (722,)),
    (lambda inputs: [complex(inputs[0])], (252,)),
    (lambda inputs: [_Infinite(item) if type(item) is str else item for item in inputs], (404,)),
    (_deep, (580, 615, 791)),
)
# By the number of a task: its arguments as they were before JSON, as evalplus 0.3.1 reads them.
_FORMS = {number: form for form, numbers in _OF_TASKS for number in numbers}


def _called(tests: Sequence[str], solution: str) -> str:
    """The function that assertions call: the first that the solution defines, else the first that is not built in."""
    defined = {node.name for node in _tree(solution).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    calls = [node.func for node in ast.walk(_tree("\n".join(tests))) if isinstance(node, ast.Call)]
    names = [function.id for function in calls if isinstance(function, ast.Name)]
    other = (name for name in names if not hasattr(builtins, name))
    entry = next((name for name in names if name in defined), None) or next(other, None)
    if entry is None:
        raise RecordRejected("test_list: its assertions call no function.")
    return entry


def _tree(code: str) -> ast.Module:
    try:
        return module_tree(code.encode())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise RecordRejected("code, test_list: they must be Python.") from None
