"""Sampling parameters that every engine and endpoint takes in the same way: what their values may be."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _within(low: float, high: float) -> tuple[str, Callable[[Any], bool]]:
    return f"a number from {low:g} to {high:g}", lambda value: _is_number(value) and low <= value <= high


def _whole(low: int | None) -> tuple[str, Callable[[Any], bool]]:
    words = "a whole number" if low is None else f"a whole number of at least {low}"
    return words, lambda value: _is_number(value) and value == int(value) and (low is None or value >= low)


def _texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _detects(value: Any) -> bool:
    names = {"max_pattern_size": 1, "min_pattern_size": 1, "min_count": 2}
    return (
        isinstance(value, dict)
        and {"max_pattern_size", "min_count"} <= value.keys() <= names.keys()
        and all(type(value[name]) is int and value[name] >= least for name, least in names.items() if name in value)
        and value.get("min_pattern_size", 1) <= value["max_pattern_size"]
    )


REPETITION_DETECTION, THINKING_BUDGET = "repetition_detection", "thinking_token_budget"
"""Sampling parameters that vLLM has: it ends an answer that repeats itself, or its thinking."""

_TEXTS = ("a text or a list of texts", _texts)
_PENALTY = _within(-2, 2)
# Parameters that are not here are a matter between the config and its endpoint.
_ALLOWED: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "temperature": ("a number of at least 0", lambda value: _is_number(value) and value >= 0),
    "top_p": _within(0, 1),
    "min_p": _within(0, 1),
    # -1 stands for all tokens.
    "top_k": _whole(-1),
    **dict.fromkeys(("max_new_tokens", "max_tokens", "max_completion_tokens"), _whole(1)),
    "min_tokens": _whole(0),
    "seed": _whole(None),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "repetition_penalty": ("a number above 0", lambda value: _is_number(value) and value > 0),
    "stop": _TEXTS,
    "token_logprobs": ("2: the chosen token and the runner-up", lambda value: _is_number(value) and value == 2),
    "until": _TEXTS,
    THINKING_BUDGET: _whole(0),
    REPETITION_DETECTION: (
        "max_pattern_size, perhaps min_pattern_size, and min_count of at least 2: whole numbers of tokens and repeats",
        _detects,
    ),
}


def wrong_parameters(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parameters whose values no engine takes, each with what its value must be.

    Args:
        params: sampling parameters by name. None stands for the engine's own value.
    """
    for name, value in params.items():
        words, is_allowed = _ALLOWED.get(name, ("", None))
        if is_allowed is not None and value is not None and not is_allowed(value):
            yield name, words
