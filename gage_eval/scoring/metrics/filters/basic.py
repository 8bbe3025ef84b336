"""The basic filters: patterns, thinking, letters, numbers."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from gage_eval.base import patterns
from gage_eval.base.patterns import PatternText
from gage_eval.scoring.extract import thinking
from gage_eval.scoring.metrics import choices, numbers
from gage_eval.scoring.metrics.base import text_filter

_Marker: TypeAlias = Annotated[str, Field(min_length=1)]


@text_filter("regex", version=2)
def regex(
    text: str,
    *,
    pattern: PatternText,
    group: int | str | None = None,
    take: Literal["first", "last"] = "first",
) -> str | None:
    """The first or last match of a pattern, stripped.

    Without ``group`` it is the match's first non-empty group, or the whole match when the pattern has no groups, as in
    the lm-eval harness. An empty match does not count. The syntax is that of the package `regex`; a pattern that takes
    longer than two seconds on an answer leaves the row unscored.
    """
    match = patterns.find(pattern, text, take=take)
    if match is None:
        return None
    if group is not None:
        text_of_group = match[group]
    elif match.re.groups:
        text_of_group = next((part for part in match.groups() if part), None)
    else:
        text_of_group = match[0]
    return (text_of_group or "").strip() or None


@text_filter("strip_thinking", version=1)
def strip_thinking(
    text: str, *, start: _Marker = thinking.THINK_START, end: _Marker = thinking.THINK_END
) -> str | None:
    """The answer after the thinking; nothing when the thinking never ended."""
    return thinking.strip_thinking(text, start, end)


@text_filter("choice_letter", version=4)
def choice_letter(text: str, *, letters: str = "ABCDEFGHIJ") -> str | None:
    """The one letter that an answer chooses, by the rule of `multi_choice_accuracy`."""
    answer = thinking.strip_thinking(text)
    return None if answer is None else choices.choose(answer, dict.fromkeys(letters, ""))


@text_filter("last_number", version=2)
def last_number(text: str) -> str | None:
    """The last number, as written."""
    number = numbers.last_number(text)
    return None if number is None else number.text


@text_filter("first_number", version=2)
def first_number(text: str) -> str | None:
    """The first number, as written."""
    number = numbers.first_number(text)
    return None if number is None else number.text
