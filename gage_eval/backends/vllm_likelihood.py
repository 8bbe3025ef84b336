"""Log-likelihoods through vLLM's HTTP API: tokens by ``/tokenize``, their probabilities by ``prompt_logprobs``."""

import asyncio
from collections.abc import Sequence
from typing import Any

from gage_eval.backends.worker.likelihood import Scored, entry, place, split
from gage_eval.canonical import encode
from gage_eval.engine.http import HTTPEndpoint, Malformed, parse_json
from gage_eval.engine.types import Request, Response


class _GivenUp(Exception):
    """A request on the way failed; the row's response says why."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.error_kind)
        self.response = response


class Likelihoods:
    """Answers likelihood requests of one server.

    Args:
        api: the server's ``/v1``.
        root: the server itself.
        model: the name it knows the model by.
        prefix: the token that stands for an empty context; None: what the server's tokenizer begins a text with.
        special: begin contexts with the tokenizer's special tokens.
    """

    def __init__(self, api: HTTPEndpoint, root: HTTPEndpoint, model: str, prefix: int | None, special: bool) -> None:
        self._api = api
        self._root = root
        self._model = model
        self._prefix = prefix
        self._special = special

    async def answer(self, request: Request) -> Response:
        """The likelihoods of a request's choices; an error row where the server or the tokens do not allow it."""
        choices = request.choices or []
        contexts = [request.prompt or ""] * len(choices)
        if request.unconditioned is not None:
            contexts += [request.unconditioned] * len(choices)
        try:
            scored = await self._tokens(contexts, [*choices, *choices][: len(contexts)])
            passes = [one for one in scored if one is not None]
            if len(passes) < len(scored):
                return Response(
                    "error",
                    error_kind="empty_context",
                    errors=["a choice or its context has no tokens, and the model no token to begin with"],
                )
            found, told = await self._logprobs(passes)
        except _GivenUp as given_up:
            return given_up.response
        result = {"choices": found[: len(choices)]}
        if request.unconditioned is not None:
            result["unconditioned"] = found[len(choices) :]
        told.logprobs = encode(result).decode()
        return told

    async def _tokens(self, contexts: Sequence[str], continuations: Sequence[str]) -> list[Scored | None]:
        pairs = [split(context, rest) for context, rest in zip(contexts, continuations, strict=True)]
        texts = {text for bare, rest in pairs for text in (bare, bare + rest) if text}
        tokenised = dict(zip(texts, await asyncio.gather(*map(self._tokenise, texts)), strict=True))
        prefix = self._prefix
        if prefix is None and any(not bare for bare, _ in pairs):
            begun, _ = await self._tokenise("", special=True)
            prefix = begun[0] if begun else None
        scored = []
        for bare, rest in pairs:
            whole, longest = tokenised[bare + rest] if bare + rest else ([], 0)
            scored.append(place(tokenised[bare][0] if bare else [], whole, prefix, longest))
        return scored

    async def _tokenise(self, text: str, special: bool | None = None) -> tuple[list[int], int]:
        """The tokens of a text, and how many the model takes."""
        found: tuple[list[int], int] = ([], 0)

        def read(reply: bytes) -> Response:
            nonlocal found
            value = parse_json(reply)
            try:
                found = [int(token) for token in value["tokens"]], int(value["max_model_len"])
            except (TypeError, KeyError, ValueError):
                raise Malformed("the answer has no tokens") from None
            return Response("ok")

        body = {
            "model": self._model,
            "prompt": text,
            "add_special_tokens": self._special if special is None else special,
        }
        response = await self._root.call("tokenize", encode(body), read)
        if response.status != "ok":
            raise _GivenUp(response)
        return found

    async def _logprobs(self, passes: Sequence[Scored]) -> tuple[list[dict[str, Any]], Response]:
        """One entry for each pass, and a response with what the server counted."""
        found: list[dict[str, Any]] = []

        def read(reply: bytes) -> Response:
            nonlocal found
            value = parse_json(reply)
            try:
                ordered = sorted(value["choices"], key=lambda choice: choice["index"])
                found = [read_entry(one, choice) for one, choice in zip(passes, ordered, strict=True)]
                runs = [str(value[name]) for name in ("model", "system_fingerprint") if value.get(name)]
                return Response(
                    "ok", prompt_tokens=value["usage"]["prompt_tokens"], model_fingerprint=" ".join(runs) or None
                )
            except (TypeError, KeyError, ValueError, IndexError):
                raise Malformed("the answer has no prompt_logprobs for each token of the prompts") from None

        body = {
            "model": self._model,
            "prompt": [one.tokens for one in passes],
            # Nothing is to be generated, and no server takes less.
            "max_tokens": 1,
            "temperature": 0,
            # The tokens asked for and no others: each further one costs as much again, at every place.
            "prompt_logprobs": 0,
        }
        response = await self._api.call("completions", encode(body), read)
        if response.status != "ok":
            raise _GivenUp(response)
        return found, response


def read_entry(scored: Scored, choice: Any) -> dict[str, Any]:
    """The candidate's entry from a choice of the server's answer.

    Raises:
        TypeError, KeyError, ValueError, IndexError: it is no such answer.
    """
    logprobs, greedy = [], True
    places = choice["prompt_logprobs"]
    if len(places) != len(scored.tokens):
        raise ValueError("another number of tokens")
    for index in range(scored.start, len(scored.tokens)):
        told = places[index][str(scored.tokens[index])]
        logprobs.append(float(told["logprob"]))
        greedy = greedy and told["rank"] == 1
    return entry(logprobs, greedy, scored.truncated)
