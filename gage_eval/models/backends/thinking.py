"""Answers of reasoning models: separate the thinking from the answer."""

from typing import Any

from gage_eval.models.backends.base import ThinkingConfig
from gage_eval.models.client.types import Response
from gage_eval.scoring.extract.thinking import split_thinking


def take_thinking(response: Response, config: ThinkingConfig, stops: Any) -> None:
    """Put thinking text apart from a response's answer; then cut at the stop strings, where that is ours to do.

    Args:
        response: it is truncated when its thinking never ended.
        config: of the backend.
        stops: of the request, as for `cut_at`.
    """
    answer = response.answer or ""
    if config.think_end in answer or config.think_start in answer:
        thought = split_thinking(answer, config.think_start, config.think_end)
        answer = thought.answer
        if thought.reasoning is not None:
            response.reasoning = "\n".join(filter(None, (response.reasoning, thought.reasoning)))
        if not thought.closed and response.status == "ok":
            response.status = "truncated"
    response.answer = cut_at(answer, stops) if config.stop_after_thinking else answer


def cut_at(text: str, stops: Any) -> str:
    """The text up to the first of some stop strings: a list of them, a single one, or None."""
    texts = [stops] if isinstance(stops, str) else [str(stop) for stop in stops or ()]
    positions = [index for stop in texts if stop and (index := text.find(stop)) >= 0]
    return text[: min(positions)] if positions else text
