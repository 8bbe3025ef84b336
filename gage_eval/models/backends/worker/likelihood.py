"""The tokens that a log-likelihood sums over. All engines follow the rules of the lm-eval harness.

A likelihood request has a context and candidate continuations; a candidate's score is the sum of the log
probabilities of its tokens after the context. Everything here is about tokens; no model takes part.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """Tokens for one forward pass, and which of them count.

    Attributes:
        tokens: context and continuation.
        start: index of the continuation's first token, at least 1.
        truncated: tokens were dropped at the left, because the model cannot take more.
    """

    tokens: list[int]
    start: int
    truncated: bool


def split(context: str, continuation: str) -> tuple[str, str]:
    """Context and continuation as they are tokenised: white space that ends the context moves over."""
    bare = context.rstrip()
    return bare, context[len(bare) :] + continuation


def locate(context: Sequence[int], whole: Sequence[int], prefix: int | None, max_length: int) -> list[ForwardPass]:
    """Find the continuation in the tokens of context and continuation together.

    Args:
        context: ``encode(context)``, of the context that `split` returns; empty for an empty one.
        whole: ``encode(context + continuation)``.
        prefix: the token that replaces an empty context (BOS, else EOS); None if the model has neither.
        max_length: tokens the model takes; a pass has at most ``max_length - 1``.

    Returns:
        One pass, which drops tokens at the left where there are too many. After an empty context, each token of a text
        counts, so a long one takes several passes (`_windows`). None when there is nothing to score, or nothing to
        score it after.
    """
    tokens, start, longest = list(whole), len(context), max_length - 1
    if start == 0:
        if tokens and tokens[0] == prefix:
            tokens = tokens[1:]
        elif prefix is None:
            return []
        return _windows(prefix, tokens, longest - 1) if longest > 1 else []
    if len(tokens) <= start:
        return []
    dropped = max(0, len(tokens) - longest)
    kept = tokens[dropped:]
    # A continuation that fills the window loses its first tokens, and the first one kept is what others follow.
    return [ForwardPass(kept, max(1, start - dropped), dropped > 0)] if len(kept) > 1 else []


def _windows(prefix: int, tokens: Sequence[int], size: int) -> list[ForwardPass]:
    """Passes that together score each token of a text once, at most ``size`` a pass.

    A pass begins with the last token of the one before it, the last pass with as many as it has room for. That is
    ``get_rolling_token_windows`` and ``make_disjoint_window`` of the lm-eval harness (``lm_eval/utils.py``), with
    ``context_len=1``.
    """
    text = [prefix, *tokens]
    passes = []
    for begin in range(1, len(text), size):
        end = min(begin + size, len(text))
        first = max(0, end - size - 1)
        passes.append(ForwardPass(text[first:end], begin - first, truncated=False))
    return passes


def encode_pair(
    encode: Encode, context: str, continuation: str, prefix: int | None, max_length: int
) -> list[ForwardPass]:
    """`split` and `locate` with a tokenizer at hand."""
    bare, rest = split(context, continuation)
    return locate(encode(bare) if bare else [], encode(bare + rest), prefix, max_length)


def entry(logprobs: Sequence[float], is_greedy: bool, truncated: bool) -> dict[str, Any]:
    """One candidate of a likelihood response, from the log probabilities of its tokens."""
    total = math.fsum(logprobs)
    return {
        "ll": total if math.isfinite(total) else "-Infinity",
        "is_greedy": is_greedy,
        "tokens": len(logprobs),
        "truncated": truncated,
    }


def by_candidate(
    entries: Sequence[Mapping[str, Any]], passes: Sequence[Sequence[ForwardPass]]
) -> list[Mapping[str, Any]]:
    """One entry for each candidate, from those of its passes, which are in the same order."""
    rest = iter(entries)
    return [_whole([next(rest) for _ in each]) for each in passes]


def by_context(entries: Sequence[Mapping[str, Any]], choices: int) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The content of a likelihood response, made of the entries of all candidates.

    Args:
        entries: of each choice after its context, then of each without it where that was asked for.
        choices: how many there are.
    """
    by_prompt = {"choices": entries[:choices]}
    if len(entries) > choices:
        by_prompt["unconditioned"] = entries[choices:]
    return by_prompt


def _whole(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The entry of a candidate that took several passes."""
    if len(entries) == 1:
        return entries[0]
    possible = all(part["ll"] != "-Infinity" for part in entries)
    return {
        "ll": math.fsum(part["ll"] for part in entries) if possible else "-Infinity",
        "is_greedy": all(part["is_greedy"] for part in entries),
        "tokens": sum(part["tokens"] for part in entries),
        "truncated": False,
    }
