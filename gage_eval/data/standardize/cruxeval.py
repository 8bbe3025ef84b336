"""The preprocessor of CRUXEval: a function and an assertion about it that a model completes."""

import ast
from typing import Annotated, Any, Literal

from pydantic import Field

from gage_eval.base.python_syntax import module_tree
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.base import BuiltInPreprocessor
from gage_eval.data.standardize.fields import carry_over, read, text_of
from gage_eval.data.standardize.options import IdField, SystemPrompt
from gage_eval.extend import registry

# A function among the arguments cannot leave the answer's process, so these few tasks are tested there.
_IN_ANSWER = "assert {output} == cruxeval_value()\n"
# The first line lets a call that does not end use up the answer's time, not that of the tests. The second one takes the
# arguments as data, so that the function that decides is the trusted one.
_BY_ARGUMENTS = "ended = cruxeval_value()\ngiven, named = cruxeval_arguments()\nassert {output} == f(*given, **named)\n"


@registry.preprocessors.register("cruxeval", version=1)
class Cruxeval(BuiltInPreprocessor):
    """CRUXEval (Gu et al. 2024): the output of a function for an input, or an input for an output.

    ``metadata`` gets ``entry_point``, ``prelude`` and ``tests`` for the program that the filter `cruxeval` makes of an
    answer. To predict an output, the answer does not have the function, and ``called`` is the call that must not be in
    it. The completed assertion is the reference.
    """

    predicts: Annotated[Literal["output", "input"], Field(description="What the model completes.")]
    id_field: IdField = "id"
    system_prompt: SystemPrompt = None
    template: Annotated[str, Field(description="Jinja text of the user message; it sees `question` and `record`.")] = (
        "{{ question }}\n\nReplace the question marks. Answer with the whole line."
    )

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        code, arguments, output = (text_of(read(record, name), name) for name in ("code", "input", "output"))
        sample = carry_over(record, ("code", "input", "output", self.id_field, "label", "messages"))
        open_assertion = f"assert f({arguments}) == ??" if self.predicts == "output" else f"assert f(??) == {output}"
        assert self.user_message is not None
        text = self.user_message.render(f"{code}\n{open_assertion}", [], record)
        if self.predicts == "output":
            facts = {"prelude": "", "tests": _IN_ANSWER.format(output=output), "called": f"f({arguments})"}
        else:
            tests = _IN_ANSWER if _has_function(arguments) else _BY_ARGUMENTS
            facts = {"prelude": code, "tests": tests.format(output=output)}
        facts["entry_point"] = "cruxeval_value"
        return self.finished(record, sample, text, [f"assert f({arguments}) == {output}"], "code-reasoning", facts)


def _has_function(arguments: str) -> bool:
    try:
        tree = module_tree(f"f({arguments})".encode())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise RecordRejected("input: it must be the arguments of a call in Python.") from None
    return any(isinstance(node, ast.Lambda) for node in ast.walk(tree))
