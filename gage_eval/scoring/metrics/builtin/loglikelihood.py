"""Multiple choice by log-likelihood, by the rules of the lm-eval harness (0.4).

`gage_eval.scoring.metrics.likelihoods` documents the form of responses. A response without likelihoods is unscored.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from pydantic import Field

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.likelihoods import Question, read_question

_FIELDS = {"logprobs": "model_output.logprobs", "answers": "sample.targets"}
_likelihood_metric = partial(metric, fields=_FIELDS, of_likelihoods=True)


@_likelihood_metric("acc", value="acc", binary=True, version=1)
def acc(logprobs: JsonValue, options: JsonValue, answers: Sequence[str]) -> Score:
    """1 when the most likely choice is right, else 0. Of equally likely choices the first counts."""
    return _by(Question.lls, logprobs, options, answers)


@_likelihood_metric("acc_norm", value="acc_norm", binary=True, version=1)
def acc_norm(logprobs: JsonValue, options: JsonValue, answers: Sequence[str]) -> Score:
    """1 when the choice most likely per character of its text, without delimiter, is right, else 0."""
    return _by(lambda question: _per_length(question, len), logprobs, options, answers)


@_likelihood_metric("acc_bytes", value="acc_bytes", binary=True, version=1)
def acc_bytes(logprobs: JsonValue, options: JsonValue, answers: Sequence[str]) -> Score:
    """1 when the choice most likely per UTF-8 byte of its text is right, else 0."""
    return _by(lambda question: _per_length(question, _bytes), logprobs, options, answers)


@_likelihood_metric("acc_mutual_info", value="acc_mutual_info", binary=True, version=1)
def acc_mutual_info(logprobs: JsonValue, options: JsonValue, answers: Sequence[str]) -> Score:
    """1 when the choice that gains the most likelihood from the context is right, else 0.

    The gain is ll(choice | context) − ll(choice | unconditioned input): pointwise mutual information.
    """
    return _by(_gains, logprobs, options, answers)


@_likelihood_metric("greedy_match", value="greedy_match", binary=True, version=1)
def greedy_match(logprobs: JsonValue, options: JsonValue, answers: Sequence[str]) -> Score:
    """1 when greedy decoding gives a right choice, else 0; the harness calls it ``exact_match``."""

    def greedy(question: Question) -> Score:
        flags = [question.choices[index].is_greedy for index in sorted(question.gold)]
        if None in flags:
            raise ValueError("the response does not say is_greedy")
        return Score(float(any(flags)))

    return _of(greedy, logprobs, options, answers)


@_likelihood_metric("brier_score", value="brier", higher_is_better=False, bounds=(0, 2), version=1)
def brier_score(logprobs: JsonValue, options: JsonValue, answers: Sequence[str]) -> Score:
    """Σ over choices of (softmax(ll) − 1 for the right one, else 0)², 0 at best and 2 at worst (Brier 1950).

    A question with several right choices is unscored.
    """

    def brier(question: Question) -> Score:
        if len(question.gold) != 1:
            raise ValueError("the Brier score needs one right choice")
        shares = softmax(question.lls())
        return Score(math.fsum((share - (index in question.gold)) ** 2 for index, share in enumerate(shares)))

    return _of(brier, logprobs, options, answers)


@_likelihood_metric(
    "ece", value="ece", aggregate="corpus_ece", higher_is_better=False, bounds=(0, 1), perfect=None, version=1
)
def ece(
    logprobs: JsonValue,
    options: JsonValue,
    answers: Sequence[str],
    *,
    bins: Annotated[int, Field(ge=1, le=100)] = 10,
) -> Score:
    """Expected calibration error: how far the model's confidence is from its accuracy (Guo et al. 2017), 0..1.

    Confidence is the largest softmax(ll) of the choices. Answers are put into ``bins`` of equal width by it; the number
    is Σ over bins of |Σ right − Σ confidence| / n. The value of one answer is |right − confidence|.
    """

    def error(question: Question) -> Score:
        shares = softmax(question.lls())
        confidence = max(shares)
        off = float(shares.index(confidence) in question.gold) - confidence
        sums = [0.0] * bins
        sums[max(0, math.ceil(confidence * bins) - 1)] = off
        return Score(abs(off), components={"ece": [*sums, 1]})

    return _of(error, logprobs, options, answers)


def softmax(lls: Sequence[float]) -> list[float]:
    """Probabilities of candidates that exclude each other, from their log-likelihoods.

    Raises:
        ValueError: no candidate has a probability above 0.
    """
    highest = max(lls)
    if highest == -math.inf:
        raise ValueError("no choice has a probability")
    weights = [math.exp(ll - highest) for ll in lls]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _by(
    rank: Callable[[Question], list[float]], logprobs: JsonValue, options: JsonValue, answers: Sequence[str]
) -> Score:
    def best(question: Question) -> Score:
        ranks = rank(question)
        if any(math.isnan(value) for value in ranks):
            raise ValueError("a choice with probability 0 has no rank")
        index = ranks.index(max(ranks))
        return Score(float(index in question.gold), extracted=question.ids[index])

    return _of(best, logprobs, options, answers)


def _of(compute: Callable[[Question], Score], logprobs: JsonValue, options: JsonValue, answers: Sequence[str]) -> Score:
    try:
        return compute(read_question(logprobs, options, answers))
    except ValueError as error:
        return Score.unscored(str(error))


def _per_length(question: Question, length: Callable[[str], int]) -> list[float]:
    # An empty choice has no length to divide by; it ranks as one of length 1.
    return [ll / max(length(text), 1) for ll, text in zip(question.lls(), question.texts, strict=True)]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _gains(question: Question) -> list[float]:
    if not question.unconditioned:
        raise ValueError("the response has no unconditioned log-likelihoods")
    return [choice.ll - alone.ll for choice, alone in zip(question.choices, question.unconditioned, strict=True)]
