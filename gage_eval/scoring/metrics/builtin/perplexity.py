"""Losses and perplexities. Those of a corpus are weighted by size, never means over texts."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Literal

from pydantic import BeforeValidator

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import FIRST_VERSION, Score, metric
from gage_eval.scoring.metrics.likelihoods import read_likelihoods
from gage_eval.scoring.metrics.text_utils import lowered

_FIELDS = {"logprobs": "model_output.logprobs"}
_SPACE = re.compile(r"\s+")
# Of a whole text, which is its own reference.
_text_metric = partial(metric, higher_is_better=False, fields=_FIELDS, alternatives=False, of_likelihoods=True)
# A text's own perplexity is cut off at e^700, because a score may be at most 1e305. The corpus's does not use it.
_MOST_NATS = 700.0


@metric(
    "likelihood",
    presets={FIRST_VERSION: {"metric_type": "nll"}},
    value=("nll", "ppl"),
    chosen_by="metric_type",
    aggregate={"nll": "ratio", "ppl": "perplexity"},
    higher_is_better=False,
    bounds={"nll": (0, None), "ppl": (1, None)},
    version=2,
    fields=_FIELDS,
)
def likelihood(
    logprobs: JsonValue, *, metric_type: Annotated[Literal["nll", "ppl"], BeforeValidator(lowered)] | None = None
) -> Score:
    """Negative log-likelihood per token in nats (``nll``) and its exponential, the perplexity (``ppl``).

    Read from the response's ``logprobs``: a loss (the mean over tokens, which then weighs as one token),
    ``token_logprobs`` (nested lists are joined, nulls skipped), the log probabilities of a chat completion
    (``content``), or one choice with ``ll`` and ``tokens`` (`gage_eval.scoring.metrics.likelihoods`). A response
    without any is unscored, because 0 would mean perfect. Of a corpus: Σ nll / Σ tokens, and the exponential of that.
    ``metric_type`` selects one of the two.
    """
    try:
        nats, tokens = nats_and_tokens(logprobs)
    except ValueError as error:
        return Score.unscored(str(error))
    mean = nats / tokens
    values = {"nll": mean, "ppl": _capped_exp(mean)}
    components: dict[str, JsonValue] = {"nll": [nats, tokens], "ppl": [-nats, tokens]}
    if metric_type is not None:
        values, components = {metric_type: values[metric_type]}, {metric_type: components[metric_type]}
    return Score(values, components=components, metadata={"token_count": tokens})


@_text_metric("word_perplexity", value="word_perplexity", aggregate="perplexity", bounds=(1, None), version=2)
def word_perplexity(logprobs: JsonValue, reference: str) -> Score:
    """exp(−Σ ll / Σ words), with words separated by white space, as in the lm-eval harness.

    ``reference`` is the text that was measured, ``logprobs`` its only choice (`gage_eval.scoring.metrics.likelihoods`).
    """
    return _perplexity("word_perplexity", logprobs, len(_SPACE.split(reference)))


@_text_metric("byte_perplexity", value="byte_perplexity", aggregate="perplexity", bounds=(1, None), version=2)
def byte_perplexity(logprobs: JsonValue, reference: str) -> Score:
    """exp(−Σ ll / Σ UTF-8 bytes) of the texts that were measured (see ``word_perplexity``)."""
    return _perplexity("byte_perplexity", logprobs, _bytes(reference))


@_text_metric("bits_per_byte", value="bits_per_byte", aggregate="ratio", bounds=(0, None), version=1)
def bits_per_byte(logprobs: JsonValue, reference: str) -> Score:
    """−Σ ll / (Σ UTF-8 bytes · ln 2) of the texts that were measured (see ``word_perplexity``)."""
    size = _bytes(reference)
    try:
        bits = -_ll_of_text(logprobs, size) / math.log(2)
    except ValueError as error:
        return Score.unscored(str(error))
    return Score(bits / size, components={"bits_per_byte": [bits, size]})


def _perplexity(key: str, logprobs: JsonValue, size: int) -> Score:
    try:
        ll = _ll_of_text(logprobs, size)
    except ValueError as error:
        return Score.unscored(str(error))
    return Score(_capped_exp(-ll / size), components={key: [ll, size]})


def _ll_of_text(logprobs: JsonValue, size: int) -> float:
    """The log-likelihood of a text that has ``size`` words or bytes.

    Raises:
        ValueError: there is not exactly one, the text is empty, or the text has probability 0.
    """
    choices = read_likelihoods(logprobs)
    if len(choices) != 1:
        raise ValueError(f"the response has {len(choices)} log-likelihoods, not that of one text")
    if size == 0:
        raise ValueError("the text is empty")
    return _number(choices[0].ll)


def nats_and_tokens(logprobs: JsonValue) -> tuple[float, int]:
    """Negative log-likelihood in nats, and its number of tokens.

    Raises:
        ValueError: there is none, or a value is not a number.
    """
    if isinstance(logprobs, Mapping):
        if logprobs.get("loss") is not None:
            return _number(logprobs["loss"]), 1
        if "token_logprobs" in logprobs:
            return _summed(logprobs["token_logprobs"])
        if isinstance(content := logprobs.get("content"), list):
            return _summed([token.get("logprob") if isinstance(token, Mapping) else token for token in content])
        choices = read_likelihoods(logprobs)
        if len(choices) == 1 and choices[0].tokens:
            return -_number(choices[0].ll), choices[0].tokens
    elif isinstance(logprobs, int | float):
        return _number(logprobs), 1
    elif isinstance(logprobs, list):
        return _summed(logprobs)
    raise ValueError("the response has neither a loss nor log probabilities of tokens")


def _summed(values: JsonValue) -> tuple[float, int]:
    numbers = list(_flat(values))
    if not numbers:
        raise ValueError("the response has no log probabilities of tokens")
    return -math.fsum(numbers), len(numbers)


def _flat(values: JsonValue) -> Iterator[float]:
    """Numbers of nested lists; a null (the first token of a prompt has no probability) is skipped."""
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(reversed(value))
        elif value is not None:
            yield _number(value)


def _number(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{str(value)[:80]!r} is not a log probability")
    return float(value)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _capped_exp(nats: float) -> float:
    return math.exp(min(nats, _MOST_NATS))
