"""Models behind an OpenAI-compatible HTTP API: chat, completions and embeddings."""

import asyncio
import math
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from gage_eval.base.canonical import JsonValue, encode
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.base.marks import scheduling, semantic
from gage_eval.base.statuses import FINISH_STATUSES
from gage_eval.extend import registry
from gage_eval.models.backends import echo_likelihood
from gage_eval.models.backends.asked import is_empty, likelihood_body, request_content, skipped
from gage_eval.models.backends.base import BackendContext, ThinkingConfig
from gage_eval.models.backends.http_model import Address, HTTPModel, HTTPModelConfig, check_parameters
from gage_eval.models.backends.media import MEDIA_REFERENCE, OPENAI_FORMS, in_form, part_types, with_media
from gage_eval.models.backends.media_server import BY_URL, MediaConfig, MediaLinks, MediaServer, StoreLinks
from gage_eval.models.backends.thinking import take_thinking
from gage_eval.models.backends.worker.token_ids import token_digest
from gage_eval.models.client.http import Ask
from gage_eval.models.client.payload import Malformed, model_fingerprint, shown
from gage_eval.models.client.token_steps import LOGPROBS_PARAMETER, store_tokens
from gage_eval.models.client.types import Request, RequestRefused, Response, called_function, token_count

# Extra fields of a streamed request. They are not part of the body, because streaming does not change the question.
_STREAMED = b'{"stream":true,"stream_options":{"include_usage":true},'

# How an endpoint says that it does not know the form of a part.
_UNKNOWN_FORM = frozenset({"http_400", "http_415", "http_422"})

_NOT_FETCHED = "did not fetch the media that are sent by URL: set media_source: base64, if it cannot read these URLs"


class OpenAIHTTPConfig(HTTPModelConfig, ThinkingConfig, MediaConfig):
    """An OpenAI-compatible endpoint. Undeclared keys become fields of every request body."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = semantic(
        "infer", "max_tokens", description="The endpoint's name of max_new_tokens."
    )
    reasoning_effort: str | None = semantic("infer", None, min_length=1, description="How much the model thinks.")
    thinking_budget: int | None = semantic("infer", None, ge=0, description="Tokens the model may think.")
    thinking_budget_field: str = semantic(
        "infer", "thinking_budget", min_length=1, description="The endpoint's name of thinking_budget."
    )
    echo_logprobs: bool = semantic(
        "infer",
        default=False,
        description="The endpoint's completions echo a prompt with its log probabilities: it can score likelihoods.",
    )
    audio_part: Literal["audio_url", "input_audio"] | None = scheduling(
        None,
        description="The form of recordings: vLLM's and SGLang's `audio_url`, or OpenAI's `input_audio` (WAV and MP3); "
        "by default the one that the endpoint takes, the first one first.",
    )
    file_part: Literal["file_url", "file"] | None = scheduling(
        None,
        description="The form of documents: `file_url`, or OpenAI's `file`; by default that which the endpoint takes.",
    )
    stream: bool = scheduling(default=False, description="Ask for streams, to time the first token.")


@registry.backends.register("openai_http", version=3, config=OpenAIHTTPConfig)
class OpenAIHTTP(HTTPModel[OpenAIHTTPConfig]):
    """An OpenAI-compatible endpoint, hosted or self-hosted (vLLM, llama.cpp, …)."""

    type = "openai_http"
    capabilities = frozenset({"chat", "completion", "embed", "tools", "images", "logprobs", "schema"})

    def __init__(self, config: OpenAIHTTPConfig, context: BackendContext) -> None:
        super().__init__(config, context)
        if config.echo_logprobs:
            self.capabilities = self.capabilities | {"likelihood"}
        # Read for every request; a field of a model costs three times as much as an attribute.
        self._model, self._streams = config.model, config.stream
        self._cuts_at_stops = config.stop_after_thinking
        self._max_tokens_field = config.max_tokens_field
        own = {
            **(config.model_extra or {}),
            "reasoning_effort": config.reasoning_effort,
            config.thinking_budget_field: config.thinking_budget,
        }
        self._constant = {
            **{name: value for name, value in own.items() if value is not None},
            **self._mapped(config.default_params),
        }
        self._asks_tokens = self._constant.get(LOGPROBS_PARAMETER) is not None
        # Of servers whose answers may hold the token ids of the prompt.
        self.tells_token_ids = False
        wanted = {"audio_url": config.audio_part, "file_url": config.file_part}
        self._forms: Mapping[str, str] = {kind: form or kind for kind, form in wanted.items()}
        self._unsettled = {kind for kind, form in wanted.items() if form is None}
        self._media: MediaServer | None = None
        self._links: MediaLinks | None = None
        if config.media_source != "base64":
            by_url = BY_URL if self._forms["audio_url"] == "audio_url" else BY_URL - {"audio_url"}
            self._unsettled -= by_url
            if config.media_source == "store" and context.media_link is not None:
                self._links = StoreLinks(context.media_link, by_url)
            elif config.media_source == "url" and context.media is not None:
                self._links = self._media = MediaServer(context.media, by_url)
                self._hidden = (self._media.token,)

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The request body: the config's keys, then the parameters, then messages or prompt.

        Raises:
            InputError: a parameter would change what is asked of whom (model, messages, stream, n, …).
        """
        body: dict[str, JsonValue] = {**self._constant, **self._mapped(request.params)}
        check_parameters(request, body)
        body["model"] = self._model
        if request.kind == "likelihood":
            return {"model": self._model, **likelihood_body(request, self.defaults)}
        if request.kind == "embed":
            # Endpoints refuse sampling parameters here. OpenAI's API embeds texts, and vLLM's also messages with media.
            embedded = {"input": request.prompt} if request.messages is None else {"messages": request.messages}
            return {**(self.config.model_extra or {}), **request.params, "model": self._model, **embedded}
        body.update(request_content(request))
        return body

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer. An empty prompt is skipped without a request."""
        if is_empty(request):
            return skipped()
        if request.kind == "likelihood":
            return await echo_likelihood.answer(self.endpoint, self._model, request)
        if MEDIA_REFERENCE in body and _sends_messages(request):
            response = await self._call_with_media(request, body)
        else:
            response = await self.endpoint.call(self._ask(request, body))
        if response.answer and request.kind != "embed":
            stops = self.body(request).get("stop") if self._cuts_at_stops else None
            take_thinking(response, self.config, stops)
        if self._asks_for_tokens(request):
            store_tokens(response, {**self._constant, **request.params})
        return response

    async def _call_with_media(self, request: Request, body: bytes) -> Response:
        """The response to a request with media. The first ones of a kind find out which form the endpoint takes."""

        async def answered(forms: Mapping[str, str]) -> Response:
            ask = await asyncio.to_thread(self._ask, request, body, forms)
            if self._media is None or request.embed:
                return await self.endpoint.call(ask)
            return await self._fetching(self._media, self.endpoint.call(ask), request)

        kinds = self._unsettled.intersection(part_types(request.messages or []))
        response = await answered(self._forms)
        for kind in sorted(kinds) if response.error_kind in _UNKNOWN_FORM else ():
            others = {**self._forms, kind: OPENAI_FORMS[kind]}
            try:
                again = await answered(others)
            except InputError:
                # OpenAI's form cannot hold it.
                continue
            if again.status != "error":
                self._forms = others
                errors = [*response.errors, *again.errors]
                response = replace(again, attempts=response.attempts + again.attempts, errors=errors)
                break
        if response.status != "error":
            self._unsettled -= kinds
        return response

    @staticmethod
    async def _fetching(media: MediaServer, call: Awaitable[Response], request: Request) -> Response:
        """The response to a request that names media by URL; an error if it was answered without them.

        Raises:
            GageError: the run cannot read a medium, or the call failed.
        """
        try:
            response = await call
        except RequestRefused:
            raise
        except EndpointFailed as error:
            if media.failure is None and media.all_fetched(request.messages or []):
                raise
            raise media.failure or EndpointFailed(f"{error} It {_NOT_FETCHED}.") from None
        if media.failure is not None:
            raise media.failure
        if media.all_fetched(request.messages or []):
            return response
        errors = [*response.errors, f"the endpoint {_NOT_FETCHED}"]
        if response.status == "error":
            return replace(response, errors=errors)
        return Response("error", error_kind="media_not_fetched", attempts=response.attempts, errors=errors)

    async def close(self) -> None:
        """Close the session."""
        await super().close()
        if self._media is not None:
            await self._media.close()

    async def connect(self, address: Address) -> None:
        """Talk to this HTTP API from here on."""
        if self._media is not None:
            await self._media.open()
        await super().connect(address)

    def remember(self, request: Request, body: bytes) -> None:
        """See `Backend`."""
        if self._endpoint is not None and request.kind != "likelihood":
            self._endpoint.remember(partial(self._ask, request, body))

    def _ask(self, request: Request, body: bytes, forms: Mapping[str, str] | None = None) -> Ask:
        """How a request is sent. Media are read, and have these forms, by default those of the endpoint."""
        is_chat = request.kind == "chat"
        if MEDIA_REFERENCE in body and _sends_messages(request):
            body = self._with_media(request, forms or self._forms)
        elif request.kind != "embed" and (self._cuts_at_stops or self._asks_for_tokens(request)):
            body = encode(self._sent(self.body(request)))
        if request.kind == "embed":
            return Ask("embeddings", body, read_embedding)
        if self._streams:
            body = _STREAMED + body[1:]
        if is_chat:
            return Ask("chat/completions", body, read_chat, self._streams)
        return Ask("completions", body, read_completion, self._streams)

    def _mapped(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters by the endpoint's names; those without a value are left out."""
        out = self.known({name: value for name, value in params.items() if value is not None})
        if "max_new_tokens" in out:
            out[self._max_tokens_field] = out.pop("max_new_tokens")
        return out

    def _sent(self, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """A body as it is sent: stop strings that are ours to apply stay here, and tokens have the endpoint's names."""
        sent = {name: value for name, value in body.items() if name != "stop" or not self._cuts_at_stops}
        wanted = sent.pop(LOGPROBS_PARAMETER, None)
        if wanted is not None:
            names = {"logprobs": True, "top_logprobs": wanted} if "messages" in sent else {"logprobs": wanted}
            sent = {**names, **sent}
            if self.tells_token_ids:
                sent["return_token_ids"] = True
        return sent

    def _asks_for_tokens(self, request: Request) -> bool:
        return self._asks_tokens or LOGPROBS_PARAMETER in request.params

    def _with_media(self, request: Request, forms: Mapping[str, str]) -> bytes:
        body = self._sent(self.body(request))
        body["messages"] = in_form(with_media(request, self.context, links=self._links), forms)
        return encode(body)


def _sends_messages(request: Request) -> bool:
    return request.kind == "chat" or (request.kind == "embed" and request.messages is not None)


def read_chat(reply: Any) -> Response:
    """The response in a chat completion.

    Raises:
        Malformed: no message in it, or one that cannot be read.
    """
    choice = _first_choice(reply)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Malformed("the answer has no choices[0].message")
    content = message.get("content")
    if isinstance(content, list):
        content = _text_of(content)
    refusal = message.get("refusal") or None
    if refusal is not None and not isinstance(refusal, str):
        raise Malformed("the answer's refusal is not a text")
    reasoning = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
    tool_calls = message.get("tool_calls") or None
    if tool_calls is not None and not (isinstance(tool_calls, list) and all(map(called_function, tool_calls))):
        raise Malformed("the answer's tool_calls are not a list of calls with the name of a function")
    if not isinstance(content, str):
        if content is not None or ("content" not in message and not (refusal or reasoning or tool_calls)):
            raise Malformed("the answer has no choices[0].message.content")
        content = refusal or ""
    response = _response(reply, choice, content)
    if refusal:
        response.status = "refused"
    response.reasoning = reasoning
    if tool_calls is not None:
        response.tool_calls = _json_text(tool_calls, "tool_calls")
    return response


def read_completion(reply: Any) -> Response:
    """The response in a text completion.

    Raises:
        Malformed: no text in it.
    """
    choice = _first_choice(reply)
    answer = choice.get("text")
    if not isinstance(answer, str):
        raise Malformed("the answer has no choices[0].text")
    return _response(reply, choice, answer)


def read_embedding(reply: Any) -> Response:
    """The response in an embedding: its answer is the vector as JSON text.

    Raises:
        Malformed: no vector of finite numbers in it.
    """
    data = reply.get("data") if isinstance(reply, dict) else None
    vector = data[0].get("embedding") if isinstance(data, list) and data and isinstance(data[0], dict) else None
    if not isinstance(vector, list) or not vector or not all(map(_is_number, vector)):
        raise Malformed("the answer has no data[0].embedding, a list of numbers")
    return _response(reply, {}, _json_text(vector, "embedding"))


def _text_of(parts: list[Any]) -> str:
    """The text of a content in parts. Parts of other kinds are left out where there is also text.

    Raises:
        Malformed: a part is neither an object nor a text, or only parts of other kinds hold anything.
    """
    texts = []
    for part in parts:
        value = part.get("text") if isinstance(part, dict) else part
        if isinstance(value, str):
            texts.append(value)
        elif not isinstance(part, dict):
            raise Malformed("the answer's content has a part that is neither an object nor a text")
    text = "".join(texts)
    if not text and len(texts) < len(parts):
        raise Malformed("the answer's content has no text")
    return text


def _first_choice(reply: Any) -> dict[str, Any]:
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        error = reply.get("error") if isinstance(reply, dict) else None
        raise Malformed(f"the answer has no choices[0]{f': {shown(error)}' if error else ''}")
    return choices[0]


def _response(reply: dict[str, Any], choice: dict[str, Any], answer: str) -> Response:
    """The fields of a response that chat and text completions share."""
    finish = _text(choice.get("finish_reason"))
    status = "ok" if finish is None else FINISH_STATUSES.get(finish, "ok")
    logprobs = choice.get("logprobs")
    usage = reply.get("usage")
    if not isinstance(usage, dict):
        usage = {}
    # Setting fields is twice as fast as naming them in the call, which makes a dictionary of them.
    response = Response(status, answer)
    response.finish_reason = finish
    response.logprobs = None if logprobs is None else _json_text(logprobs, "logprobs")
    response.prompt_tokens = token_count(usage.get("prompt_tokens"))
    response.completion_tokens = token_count(usage.get("completion_tokens"))
    response.model_fingerprint = model_fingerprint(reply)
    tokens = reply.get("prompt_token_ids") or choice.get("prompt_token_ids")
    if isinstance(tokens, list) and all(type(token) is int for token in tokens):
        response.prompt_digest = token_digest(tokens)
    return response


def _json_text(value: Any, name: str) -> str:
    """A part of an answer as JSON.

    Raises:
        Malformed: it has no JSON form, or is nested too deep for one.
    """
    try:
        return encode(value).decode()
    except ValueError as error:
        raise Malformed(f"the answer's {name} cannot be kept: {error}") from None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
