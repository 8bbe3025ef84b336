"""Regular expressions of configs with a time limit, so that no text of a model or dataset can stop a run.

They are compiled by the package `regex`, which has the syntax of `re` and a time limit. A search that exceeds the
limit raises, and only its row fails, with that reason. Patterns in this code base run in linear time and need no
limit.
"""

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from regex import Match, Pattern

TIME_LIMIT_S = 2.0
"""Longest time one pattern may take on one text."""


class PatternTooSlow(Exception):
    """A pattern took longer than `TIME_LIMIT_S` on one text."""

    def __init__(self, pattern: str, text: str) -> None:
        super().__init__(
            f"the pattern {pattern!r} took more than {TIME_LIMIT_S:g} s on {len(text)} characters: "
            "avoid nested repetition such as (a+)+"
        )


def search(pattern: str, text: str, *, ignore_case: bool = False) -> "Match[str] | None":
    """The first match of a pattern.

    Raises:
        PatternTooSlow: it took longer than `TIME_LIMIT_S`.
    """
    try:
        return _compiled(pattern, ignore_case).search(text, timeout=TIME_LIMIT_S)
    except TimeoutError:
        raise PatternTooSlow(pattern, text) from None


def find(pattern: str, text: str, *, take: Literal["first", "last"] = "first") -> "Match[str] | None":
    """The first or last match of a pattern.

    Raises:
        PatternTooSlow: it took longer than `TIME_LIMIT_S`.
    """
    if take == "first":
        return search(pattern, text)
    try:
        hits: Iterator[Match[str]] = _compiled(pattern, False).finditer(text, timeout=TIME_LIMIT_S)  # noqa: FBT003
        return next(iter(deque(hits, maxlen=1)), None)
    except TimeoutError:
        raise PatternTooSlow(pattern, text) from None


def fields_of_matches(pattern: str, text: str) -> list[dict[str, str | None]]:
    """The named groups of each match of a pattern.

    Raises:
        PatternTooSlow: it took longer than `TIME_LIMIT_S`.
    """
    try:
        return [match.groupdict() for match in _compiled(pattern, False).finditer(text, timeout=TIME_LIMIT_S)]  # noqa: FBT003
    except TimeoutError:
        raise PatternTooSlow(pattern, text) from None


def group_names(pattern: str) -> tuple[str, ...]:
    """The names of a pattern's groups."""
    return tuple(_compiled(pattern, False).groupindex)  # noqa: FBT003


def remove(pattern: str, text: str) -> str:
    """The text without the matches of a pattern.

    Raises:
        PatternTooSlow: it took longer than `TIME_LIMIT_S`.
    """
    try:
        return str(_compiled(pattern, False).sub("", text, timeout=TIME_LIMIT_S))  # noqa: FBT003
    except TimeoutError:
        raise PatternTooSlow(pattern, text) from None


@lru_cache(maxsize=256)
def _compiled(pattern: str, ignore_case: bool) -> "Pattern[str]":
    import regex

    return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)


def problem(pattern: str) -> str | None:
    """Why a text is not a regular expression; None for a valid one."""
    import regex

    try:
        _compiled(pattern, False)  # noqa: FBT003
    except regex.error as error:
        return str(error)
    return None


def _checked(pattern: str) -> str:
    if (reason := problem(pattern)) is not None:
        raise PydanticCustomError("pattern", "it is not a regular expression: {reason}", {"reason": reason})
    return pattern


PatternText: TypeAlias = Annotated[str, AfterValidator(_checked)]
"""A parameter that is a regular expression. It stays text and is checked when the config is read."""
