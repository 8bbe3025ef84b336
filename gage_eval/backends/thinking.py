"""Answers of models that think aloud: the thinking text apart from the answer."""

from dataclasses import dataclass
from typing import Any

from gage_eval.backends.base import ThinkingConfig
from gage_eval.client.types import Response


@dataclass(frozen=True, slots=True)
class Thought:
    """A text taken apart.

    Attributes:
        reasoning: what comes before the end marker, without the markers; None where nothing was thought.
        answer: what comes after the last end marker.
        closed: the thinking came to its end; an unclosed one leaves no answer.
    """

    reasoning: str | None
    answer: str
    closed: bool = True


def take_thinking(response: Response, config: ThinkingConfig, stops: Any) -> None:
    """Put thinking text apart from a response's answer; then cut at the stop strings, where that is ours to do.

    Args:
        response: thinking that never ends truncates it.
        config: of the backend.
        stops: of the request, as for `cut_at`.
    """
    answer = response.answer or ""
    if config.think_end in answer or config.think_start in answer:
        thought = split_thinking(answer, config.think_start, config.think_end)
        answer = thought.answer
        if thought.reasoning is not None:
            response.reasoning = "\n".join(filter(None, (response.reasoning, thought.reasoning)))
        if not thought.closed:
            response.status = "truncated"
    response.answer = cut_at(answer, stops) if config.stop_after_thinking else answer


def split_thinking(text: str, start: str, end: str) -> Thought:
    """Split a text on the end-of-thinking marker; the last part, stripped on the left, is the answer.

    The start marker may be missing, as chat templates put it into the prompt. A text that begins with it and never
    closes it holds no answer.
    """
    if end in text:
        before, _, answer = text.rpartition(end)
        return Thought(before.strip().removeprefix(start).strip() or None, answer.lstrip())
    stripped = text.lstrip()
    if stripped.startswith(start):
        return Thought(stripped.removeprefix(start).strip() or None, "", closed=False)
    return Thought(None, text)


def cut_at(text: str, stops: Any) -> str:
    """The text up to the first of some stop strings: a list of them, a single one, or None."""
    texts = [stops] if isinstance(stops, str) else [str(stop) for stop in stops or ()]
    found = [place for stop in texts if stop and (place := text.find(stop)) >= 0]
    return text[: min(found)] if found else text
