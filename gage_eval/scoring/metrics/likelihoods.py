"""Log-likelihoods of candidate continuations in responses, as metrics read them.

A likelihood response has in ``logprobs`` the JSON object

    {"choices": [{"ll": -4.2, "is_greedy": false, "tokens": 3}, …],
     "unconditioned": [{"ll": -5.1, "tokens": 3}, …]}

``choices``: one per candidate, in the sample's order. ``ll``: sum of the natural log probabilities of its tokens
given the context, or the text ``-Infinity`` for probability 0; ``is_greedy``: each token was the most likely one;
``tokens``: their number. ``unconditioned``: the same candidates after the sample's ``unconditioned_input``, where
a metric needs it. For perplexity the whole text is the only choice. Other keys are ignored.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.choices import option_texts


@dataclass(frozen=True, slots=True)
class Likelihood:
    """One candidate: its log-likelihood in nats, whether greedy decoding gives it, and its tokens."""

    ll: float
    is_greedy: bool | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A multiple-choice question with the likelihoods of its candidates.

    Attributes:
        ids: ids of the candidates, in order.
        texts: texts of the candidates, as listed, without delimiter.
        choices: likelihoods given the context.
        unconditioned: likelihoods without it; empty where they were not measured.
        gold: positions of the right candidates.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    choices: tuple[Likelihood, ...]
    unconditioned: tuple[Likelihood, ...]
    gold: frozenset[int]

    def lls(self) -> list[float]:
        """Log-likelihoods in order."""
        return [choice.ll for choice in self.choices]


def read_likelihoods(logprobs: JsonValue, name: str = "choices") -> tuple[Likelihood, ...]:
    """The entries of ``choices`` or ``unconditioned``; empty when the response has no such list.

    Raises:
        ValueError: an entry has no ``ll``.
    """
    entries = logprobs.get(name) if isinstance(logprobs, Mapping) else None
    return tuple(_likelihood(entry) for entry in entries) if isinstance(entries, list) else ()


def read_question(logprobs: JsonValue, options: JsonValue, answers: Sequence[str]) -> Question:
    """The likelihoods of a question's candidates, with their texts and the right ones.

    Args:
        logprobs: the response's ``logprobs``.
        options: as `option_texts` reads them.
        answers: ids or texts of the right candidates.

    Raises:
        ValueError: likelihoods are missing or do not fit the options, or an answer is not one of the candidates.
    """
    choices = read_likelihoods(logprobs)
    if not choices:
        raise ValueError("the response has no log-likelihoods of choices")
    candidates = option_texts(options)
    ids, texts = tuple(candidates), tuple(candidates.values())
    if len(choices) != len(ids):
        raise ValueError(f"there are {len(choices)} log-likelihoods and {len(ids)} options")
    unconditioned = read_likelihoods(logprobs, "unconditioned")
    if unconditioned and len(unconditioned) != len(ids):
        raise ValueError(f"there are {len(unconditioned)} unconditioned log-likelihoods and {len(ids)} options")
    if not answers:
        raise ValueError("there is no right answer")
    return Question(ids, texts, choices, unconditioned, frozenset(_index(answer, ids, texts) for answer in answers))


def _index(answer: str, ids: tuple[str, ...], texts: tuple[str, ...]) -> int:
    if answer in ids:
        return ids.index(answer)
    if texts.count(answer) == 1:
        return texts.index(answer)
    raise ValueError(f"the answer {answer[:80]!r} is not one of the options")


def _likelihood(entry: JsonValue) -> Likelihood:
    ll = entry.get("ll") if isinstance(entry, Mapping) else None
    if ll == "-Infinity":
        ll = -math.inf
    if not isinstance(entry, Mapping) or isinstance(ll, bool) or not isinstance(ll, int | float) or not ll < math.inf:
        raise ValueError(f"{str(entry)[:80]} has no log-likelihood 'll'")
    greedy, tokens = entry.get("is_greedy"), entry.get("tokens")
    return Likelihood(
        float(ll),
        greedy if isinstance(greedy, bool) else None,
        tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None,
    )
