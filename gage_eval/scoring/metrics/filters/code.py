"""Filters that take a program out of an answer."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from gage_eval.scoring.extract import code
from gage_eval.scoring.extract import cruxeval as assertions
from gage_eval.scoring.metrics.base import text_filter

_Text = Annotated[str, Field(min_length=1)]


@text_filter("code_block", version=1)
def code_block(text: str, *, take: code.Take = "first") -> str | None:
    """The first, last or longest fenced block; nothing when there is none.

    A block that is not closed ends with the answer. Fences of other kinds, such as `~~~`, count too.
    """
    return code.code_block(text, take)


@text_filter("before", version=1)
def before(text: str, *, stop: Annotated[Sequence[_Text], Field(min_length=1)]) -> str | None:
    """What comes before the first of some texts, as if generation had stopped there."""
    return code.before(text, stop)


@text_filter("between", version=1)
def between(text: str, *, start: _Text, end: _Text) -> str | None:
    """What stands between two markers, such as MBPP's `[BEGIN]` and `[DONE]`.

    A missing start marker is the start of the answer, because the prompt may end with it; a missing end marker its end.
    """
    return code.between(text, start, end)


@text_filter("sanitize", version=1)
def sanitize(text: str, *, entry: _Text | None = None) -> str | None:
    """The imports and definitions of a program, without its examples, prints and tests, as evalplus reads answers.

    The program is the answer, else its longest fenced block, else its longest run of lines that parses. With an
    `entry`, only what this function needs stays. The first definition of a name counts, and a function needs a
    `return` or `yield`. A program that does not parse is returned whole.
    """
    return code.sanitize(text, entry)


@text_filter("cruxeval", version=1)
def cruxeval(text: str, *, predicts: Literal["output", "input"]) -> str | None:
    """The completed assertion of CRUXEval, as a program: a function with the predicted value, or with the call of `f`.

    It reads an answer as CRUXEval's own scripts do: a value stands after the first `==`, a call before it. What holds
    no call of `f` where one is asked for is nothing.
    """
    return assertions.output_program(text) if predicts == "output" else assertions.input_program(text)
