"""Log-likelihoods through vLLM's HTTP API: tokens by ``/tokenize``, their probabilities by ``prompt_logprobs``."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gage_eval.base.canonical import encode
from gage_eval.models.backends.worker.chat import template_variables
from gage_eval.models.backends.worker.likelihood import ForwardPass, by_candidate, by_context, entry, locate, split
from gage_eval.models.client.http import Ask, HTTPEndpoint
from gage_eval.models.client.payload import Malformed, model_fingerprint
from gage_eval.models.client.types import Response, token_count

# What is read of an answer, by path.
_ANSWERS: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    "tokenize": {"tokens": list[int], "max_model_len": int},
    "detokenize": {"prompt": str},
}


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
        prefix: the token that replaces an empty context; None: the token that the server's tokenizer starts texts with.
        special: begin contexts with the tokenizer's special tokens.
    """

    def __init__(self, api: HTTPEndpoint, root: HTTPEndpoint, model: str, prefix: int | None, special: bool) -> None:
        self._api = api
        self._root = root
        self._model = model
        self._prefix = prefix
        self._special = special

    async def answer(self, request: Mapping[str, Any]) -> Response:
        """The likelihoods of a request's choices; an error row where the server or the tokens do not allow it.

        Args:
            request: as `gage_eval.models.backends.base.likelihood_body` gives it.
        """
        choices = request["choices"]
        try:
            if "messages" in request:
                # The template writes the special tokens itself.
                scored = await self._tokens(await self._rendered(request), choices, special=False)
            else:
                scored = await self._tokens(request["prompt"], choices, special=self._special)
            if "unconditioned" in request:
                scored += await self._tokens(request["unconditioned"], choices, special=self._special)
            if not all(scored):
                return Response(
                    "error",
                    error_kind="empty_context",
                    errors=["a choice or its context has no tokens, and the model no token to begin with"],
                )
            entries, response = await self._logprobs([pair for each in scored for pair in each])
        except _GivenUp as given_up:
            return given_up.response
        response.logprobs = encode(by_context(by_candidate(entries, scored), len(choices))).decode()
        return response

    async def _rendered(self, request: Mapping[str, Any]) -> str:
        """The text that the model's chat template makes of messages; a last one of the assistant is left open."""
        begun = request["messages"][-1]["role"] == "assistant"
        chat = {
            "messages": request["messages"],
            "chat_template_kwargs": template_variables(request),
            "add_generation_prompt": not begun,
            "continue_final_message": begun,
        }
        tokens, _ = await self._tokenise(chat, special=False)
        value = await self._ask("detokenize", {"tokens": tokens})
        return str(value["prompt"])

    async def _tokens(self, context: str, continuations: Sequence[str], *, special: bool) -> list[list[ForwardPass]]:
        pairs = [split(context, rest) for rest in continuations]
        texts = {text for bare, rest in pairs for text in (bare, bare + rest) if text}
        token_lists = await asyncio.gather(*(self._tokenise({"prompt": text}, special=special) for text in texts))
        tokenised = dict(zip(texts, token_lists, strict=True))
        prefix = self._prefix
        if prefix is None and any(not bare for bare, _ in pairs):
            begun, _ = await self._tokenise({"prompt": ""}, special=True)
            prefix = begun[0] if begun else None
        scored = []
        for bare, rest in pairs:
            whole, longest = tokenised[bare + rest] if bare + rest else ([], 0)
            scored.append(locate(tokenised[bare][0] if bare else [], whole, prefix, longest))
        return scored

    async def _tokenise(self, what: Mapping[str, Any], *, special: bool) -> tuple[list[int], int]:
        """The tokens of a text or a chat, and how many the model takes."""
        value = await self._ask("tokenize", {**what, "add_special_tokens": special})
        return value["tokens"], value["max_model_len"]

    async def _ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to a path of the server.

        Raises:
            _GivenUp: it says nothing that is of use.
        """
        answer: dict[str, Any] = {}

        def read(value: Any) -> Response:
            try:
                answer.update({name: kind(value[name]) for name, kind in _ANSWERS[path].items()})
            except (TypeError, KeyError, ValueError, OverflowError):
                raise Malformed(f"the answer has no {' and '.join(_ANSWERS[path])}") from None
            return Response("ok")

        response = await self._root.call(Ask(path, encode({"model": self._model, **body}), read))
        if response.status != "ok":
            raise _GivenUp(response)
        return answer

    async def _logprobs(self, passes: Sequence[ForwardPass]) -> tuple[list[dict[str, Any]], Response]:
        """One entry for each pass, and a response with what the server counted."""
        entries: list[dict[str, Any]] = []

        def read(value: Any) -> Response:
            nonlocal entries
            try:
                ordered = sorted(value["choices"], key=lambda choice: choice["index"])
                entries = [read_entry(pair, choice) for pair, choice in zip(passes, ordered, strict=True)]
                tokens = token_count(value["usage"]["prompt_tokens"])
                return Response("ok", prompt_tokens=tokens, model_fingerprint=model_fingerprint(value))
            except (TypeError, KeyError, ValueError, IndexError, OverflowError):
                raise Malformed("the answer has no prompt_logprobs for each token of the prompts") from None

        body = {
            "model": self._model,
            "prompt": [pair.tokens for pair in passes],
            # Nothing should be generated, and no server accepts less than 1.
            "max_tokens": 1,
            "temperature": 0,
            # The tokens asked for and no others: each further one costs as much again, at every place.
            "prompt_logprobs": 0,
        }
        response = await self._api.call(Ask("completions", encode(body), read))
        if response.status != "ok":
            raise _GivenUp(response)
        return entries, response


def read_entry(scored: ForwardPass, choice: Any) -> dict[str, Any]:
    """The candidate's entry from a choice of the server's answer.

    Raises:
        TypeError, KeyError, ValueError, IndexError: the answer has another form.
    """
    logprobs, greedy = [], True
    logprobs_by_token = choice["prompt_logprobs"]
    if len(logprobs_by_token) != len(scored.tokens):
        raise ValueError("another number of tokens")
    for index in range(scored.start, len(scored.tokens)):
        chosen = logprobs_by_token[index][str(scored.tokens[index])]
        logprobs.append(float(chosen["logprob"]))
        greedy = greedy and chosen["rank"] == 1
    return entry(logprobs, greedy, scored.truncated)
