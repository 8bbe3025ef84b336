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


def locate(context: Sequence[int], whole: Sequence[int], prefix: int | None, max_length: int) -> ForwardPass | None:
    """Find the continuation in the tokens of context and continuation together.

    Args:
        context: ``encode(context)``, of the context that `split` returns; empty for an empty one.
        whole: ``encode(context + continuation)``.
        prefix: the token that replaces an empty context (BOS, else EOS); None if the model has neither.
        max_length: tokens the model takes; the last ``max_length - 1`` are kept.

    Returns:
        None when there is nothing to score, or nothing to score it after.
    """
    tokens, start = list(whole), len(context)
    if start == 0:
        if tokens and tokens[0] == prefix:
            start = 1
        elif prefix is not None:
            tokens, start = [prefix, *tokens], 1
        else:
            return None
    if len(tokens) <= start:
        return None
    dropped = max(0, len(tokens) - (max_length - 1))
    kept = tokens[dropped:]
    # A continuation that fills the window loses its first tokens, and the first one kept is what others follow.
    return ForwardPass(kept, max(1, start - dropped), dropped > 0) if len(kept) > 1 else None


def encode_pair(
    encode: Encode, context: str, continuation: str, prefix: int | None, max_length: int
) -> ForwardPass | None:
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
