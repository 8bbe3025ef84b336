"""Programs of answers to CRUXEval: one side of the ``==`` in the completed assertion, as a function.

Source: facebookresearch/cruxeval, ``inference/tasks`` (how an answer is read) and ``evaluation/utils_general.py``.
"""

import ast

from gage_eval.scoring.extract.code import python_tree

_VALUE = "def cruxeval_value():\n    return (\n{expression}\n)\n"
_ARGUMENTS = "def cruxeval_arguments():\n    return (lambda *given, **named: (given, named)){arguments}\n"
_NO_CALL = "raise ValueError('the answer is not one call of f')\n"


def output_program(text: str) -> str | None:
    """A function that returns the value after the first ``==`` of a text, else the text's; None if that is blank.

    An expression that is more than one side of a comparison, such as ``5 or True``, is taken whole.
    """
    value = (text.split("==")[1] if "==" in text else text).strip()
    if not value:
        return None
    compared = _compared(value)
    if compared is None or compared[0] == value:
        return _VALUE.format(expression=value)
    # The metric looks for a call in the whole answer.
    return _VALUE.format(expression=compared[0]) + "\n".join(f"# {line}" for line in value.splitlines()) + "\n"


def input_program(text: str) -> str | None:
    """Functions that return what the call of f before the first ``==`` returns, and its arguments.

    Returns:
        None if there is no call of f. A program that fails, where the call is part of something else.
    """
    call = text.split("==")[0].strip()
    if "assert f" in call:
        call = "f" + call.split("assert f")[1].strip()
    if "f(" not in call:
        return None
    match _compared(call):
        case segment, ast.Call(func=ast.Name(id="f")):
            arguments = segment[len("f") :].lstrip()
            return _VALUE.format(expression=segment) + _ARGUMENTS.format(arguments=arguments)
    return _NO_CALL


def is_assertion(text: str) -> bool:
    """Whether a text is an assertion about a call of f, as answers to CRUXEval are."""
    tree = python_tree(text)
    match tree.body if tree is not None else []:
        case [ast.Assert(test=ast.Compare(left=ast.Call(func=ast.Name(id="f"))))]:
            return True
    return False


def _compared(expression: str) -> tuple[str, ast.expr] | None:
    """What an assertion compares with, if it ends in the expression: its text and its tree."""
    source = f"assert 0 == {expression}"
    tree = python_tree(source)
    match tree.body if tree is not None else []:
        case [ast.Assert(test=ast.Compare(ops=[ast.Eq()], comparators=[side]))]:
            segment = ast.get_source_segment(source, side)
            return None if segment is None else (segment, side)
    return None
