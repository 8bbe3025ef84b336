"""Log-likelihoods through an OpenAI-compatible endpoint that echoes a prompt with its log probabilities.

Not every endpoint does: some ignore ``echo``, or give log probabilities in another form. The first answer tells, and
ends the run: the same request would be answered the same way again.
"""

from typing import Any

from gage_eval.base.canonical import encode
from gage_eval.base.errors import EndpointFailed
from gage_eval.models.backends.worker.likelihood import by_context, entry, split
from gage_eval.models.client.http import Ask, HTTPEndpoint
from gage_eval.models.client.payload import Malformed, model_fingerprint
from gage_eval.models.client.types import Request, Response, token_count


class _NoEcho(Exception):
    """The endpoint answers, but not with the prompts and their log probabilities."""


async def answer(endpoint: HTTPEndpoint, model: str, request: Request) -> Response:
    """The likelihoods of a request's choices, all in one completion request.

    The endpoint tokenises. A choice's tokens are those that begin where its context ends or later, which is what
    `gage_eval.models.backends.worker.likelihood` says if no token spans the two. Nothing is ever cut: a prompt that
    is too long is the endpoint's error.

    Raises:
        EndpointFailed: the endpoint does not echo prompts with their log probabilities.
    """
    choices = request.choices or []
    pairs = [split(request.prompt or "", choice) for choice in choices]
    if request.unconditioned is not None:
        pairs += [split(request.unconditioned, choice) for choice in choices]
    if not all(bare and rest for bare, rest in pairs):
        text = "a choice or its context is empty, and the endpoint's token for an empty context is unknown"
        return Response("error", error_kind="empty_context", errors=[text])
    entries: list[dict[str, Any]] = []

    def read(value: Any) -> Response:
        nonlocal entries
        if not isinstance(value, dict) or not isinstance(value.get("choices"), list) or not value["choices"]:
            raise Malformed("the answer has no choices")
        try:
            ordered = sorted(value["choices"], key=lambda choice: choice["index"])
            entries = [_entry(*pair, choice) for pair, choice in zip(pairs, ordered, strict=True)]
        except (TypeError, KeyError, ValueError, IndexError, AttributeError, OverflowError):
            raise _NoEcho from None
        usage = value.get("usage")
        tokens = token_count(usage.get("prompt_tokens") if isinstance(usage, dict) else None)
        return Response("ok", prompt_tokens=tokens, model_fingerprint=model_fingerprint(value))

    body = {
        "model": model,
        "prompt": [bare + rest for bare, rest in pairs],
        "echo": True,
        "logprobs": 1,
        # Nothing should be generated, but many endpoints do not accept 0.
        "max_tokens": 1,
        "temperature": 0,
    }
    try:
        response = await endpoint.call(Ask("completions", encode(body), read))
    except _NoEcho:
        raise EndpointFailed(
            f"{endpoint.base_url} does not echo prompts with their log probabilities, so it gives no log-likelihoods. "
            "Remove echo_logprobs, or use a backend with the capability 'likelihood' (vllm, vllm_native, transformers)."
        ) from None
    if response.status == "ok":
        response.logprobs = encode(by_context(entries, len(choices))).decode()
    return response


def _entry(bare: str, rest: str, choice: Any) -> dict[str, Any]:
    if not choice["text"].startswith(bare + rest) or not choice.get("logprobs"):
        raise _NoEcho
    logprobs = choice["logprobs"]
    each, greedy = [], True
    offsets = logprobs["text_offset"]
    for index, offset in enumerate(offsets):
        if len(bare) <= offset < len(bare) + len(rest):
            logprob = float(logprobs["token_logprobs"][index])
            each.append(logprob)
            greedy = greedy and logprob >= max(logprobs["top_logprobs"][index].values())
    if not each:
        raise ValueError("no token begins in the continuation")
    return entry(each, greedy, truncated=False)
