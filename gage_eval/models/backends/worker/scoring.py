"""Likelihood requests at an engine: from texts to forward passes, and from what those give to the response."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from gage_eval.models.backends.worker.chat import context_of
from gage_eval.models.backends.worker.likelihood import ForwardPass, by_candidate, by_context, encode_pair
from gage_eval.models.backends.worker.serve import GivenUp, WorkerRequest, WorkerResponse, failed


class Scoring:
    """Answers a model's likelihood requests.

    Args:
        tokenizer: the model's.
        owner: of the chat template, as for `gage_eval.models.backends.worker.chat.render`.
        options: ``prefix``, the token that replaces an empty context, None for BOS, else EOS; ``add_bos_token``,
            whether contexts begin with the tokenizer's special tokens.
        longest: tokens the model takes.
    """

    def __init__(self, tokenizer: Any, owner: Any, options: Mapping[str, Any], longest: int) -> None:
        self._tokenizer = tokenizer
        self._owner = owner
        self._special = bool(options["add_bos_token"])
        self._longest = longest
        known = (options["prefix"], tokenizer.bos_token_id, tokenizer.eos_token_id)
        self._prefix: int | None = next((token for token in known if token is not None), None)

    async def answer(
        self, request: WorkerRequest, score: Callable[[ForwardPass], Awaitable[Mapping[str, Any]]]
    ) -> WorkerResponse:
        """The response to a likelihood request.

        Args:
            request: ``choices``, their context as `context_of` reads it, and ``unconditioned`` where it is wanted.
            score: makes the entry (`gage_eval.models.backends.worker.likelihood.entry`) of a forward pass;
                all passes run together.

        Raises:
            GivenUp: a choice or its context has no tokens, or as `score` says.
            Fatal: the model has no chat template.
        """
        # A chat's template writes the special tokens itself.
        special = self._special and "messages" not in request
        passes = self._passes(context_of(self._owner, request), request, special=special)
        if request.get("unconditioned") is not None:
            passes += self._passes(request["unconditioned"], request, special=self._special)
        together = [scored for each in passes for scored in each]
        entries = by_candidate(await asyncio.gather(*map(score, together)), passes)
        logprobs = by_context(entries, len(request["choices"]))
        tokens = sum(len(scored.tokens) for scored in together)
        return {"status": "ok", "attempts": 1, "prompt_tokens": tokens, "logprobs": json.dumps(logprobs)}

    def _passes(self, context: str, request: WorkerRequest, *, special: bool) -> list[list[ForwardPass]]:
        encode = partial(self._tokenizer.encode, add_special_tokens=special)
        passes = []
        for choice in request["choices"]:
            scored = encode_pair(encode, context, choice, self._prefix, self._longest)
            if not scored:
                raise GivenUp(failed("empty_context", "a choice or its context has no tokens"))
            passes.append(scored)
        return passes
