"""Answers of reasoning models: separate the thinking from the answer."""

from dataclasses import dataclass

THINK_START = "<think>"
THINK_END = "</think>"


@dataclass(frozen=True, slots=True)
class Thought:
    """A text split into thinking and answer.

    Attributes:
        reasoning: the thinking without the outer markers; None where there is none.
        answer: what comes after the last end marker; empty when the thinking never ended.
        closed: whether the thinking ended. Without an end there is no answer.
    """

    reasoning: str | None
    answer: str
    closed: bool = True


def split_thinking(text: str, start: str = THINK_START, end: str = THINK_END) -> Thought:
    """Split a text on the end-of-thinking marker; the last part, stripped on the left, is the answer.

    The start marker may be missing, because chat templates put it into the prompt. A start marker without an end marker
    leaves no answer.
    """
    before, ended, answer = text.rpartition(end)
    if start in answer:
        return Thought(text.strip().removeprefix(start).strip() or None, "", closed=False)
    if not ended:
        return Thought(None, text)
    return Thought(before.strip().removeprefix(start).strip() or None, answer.lstrip())


def strip_thinking(text: str, start: str = THINK_START, end: str = THINK_END) -> str | None:
    """The answer of a text without its thinking; None when the thinking never ended."""
    if start not in text and end not in text:
        return text
    thought = split_thinking(text, start, end)
    return thought.answer if thought.closed else None
