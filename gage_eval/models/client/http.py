"""An HTTP endpoint: one client, retries by `RetryPolicy`."""

import asyncio
import base64
import logging
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gage_eval.base.errors import EndpointFailed, GageError, InputError
from gage_eval.models.client.connect import Unreachable
from gage_eval.models.client.connection import Answer, Broken, Sink, Unusable
from gage_eval.models.client.echoes import EchoedKey
from gage_eval.models.client.http1 import JSON, HTTPClient, NoAnswer
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.pace import Breaker, Rates
from gage_eval.models.client.payload import A_PAGE, Malformed, is_page, parse_json
from gage_eval.models.client.retry import Action, Failure, RetryPolicy, classify
from gage_eval.models.client.route import route_to
from gage_eval.models.client.streams import Stream
from gage_eval.models.client.types import RequestRefused, Response
from gage_eval.models.client.watch import tell_retry
from gage_eval.store.media_types import media_type

_log = logging.getLogger(__name__)

# These kinds of errors mean that an endpoint is overloaded.
_OVERLOAD = frozenset({"rate_limited", "http_503", "timeout"})
_EVENTS = "text/event-stream"
_TEXTS = ("answer", "reasoning", "tool_calls", "logprobs", "finish_reason", "model_fingerprint")


class Ask(NamedTuple):
    """One request of an HTTP API.

    Attributes:
        path: below the base URL, as ``chat/completions``.
        body: as it is sent; None for a GET.
        read: makes a `Response` of what ``parse`` returns; raises `Malformed`.
        stream: the body asks for a stream, whose first token is timed.
        content_type: of the body.
        parse: makes a value of an answer's bytes; raises `Malformed`.
    """

    path: str
    body: bytes | None
    read: Callable[[Any], Response]
    stream: bool = False
    content_type: str = JSON
    parse: Callable[[bytes], Any] = parse_json


class HTTPEndpoint:
    """An HTTP API at one base URL, opened once and shared by all calls.

    Args:
        base_url: http, https, or http+unix with a socket's path; the part before ``/chat/completions``.
        api_key: sent as bearer token; shown nowhere.
        hidden: other secrets of requests, shown nowhere either.
        policy: when a failed request is sent again.
        timeout_s: longest time for one request, from sending to the last byte.
        connect_timeout_s: longest time to connect.
        idle_timeout_s: longest time without a byte of the answer; None for no limit.
        env: where proxies (``HTTPS_PROXY``, ``NO_PROXY``, …) and certificates (``SSL_CERT_FILE``) are configured.
        certificate: the only certificate (PEM) that the endpoint may show; None to verify it as usual.
        is_alive: whether the server's process runs, where we started it; a dead server is not waited for.
        limiter: receives the result of each attempt. A call that waits for its retry lends its permit to others.
        rates: requests and tokens per minute that the endpoint allows.
        give_up_after_s: how long every attempt may fail before the endpoint counts as gone.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        hidden: Sequence[str] = (),
        policy: RetryPolicy,
        timeout_s: float = 600.0,
        connect_timeout_s: float = 10.0,
        idle_timeout_s: float | None = None,
        env: Mapping[str, str],
        certificate: str | None = None,
        is_alive: Callable[[], bool] | None = None,
        limiter: Limiter | None = None,
        rates: Rates | None = None,
        give_up_after_s: float = math.inf,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._echoed = [EchoedKey(secret) for secret in (api_key, *hidden) if secret]
        self._policy = policy
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._env = env
        self._certificate = certificate
        self._is_alive = is_alive
        self._limiter = limiter or Limiter(1)
        self._rates = rates or Rates(None, None)
        self._breaker = Breaker(give_up_after_s, policy.max_elapsed_s)
        self._client: HTTPClient | None = None
        self._answered_ask: Callable[[], Ask] | None = None
        self._probing = asyncio.Lock()
        self._answered_at = -1.0
        self._warned = False

    async def open(self) -> None:
        """Make the client. Sends nothing.

        Raises:
            InputError: the URL, or the environment's proxy or certificates, cannot be used.
        """
        try:
            route = route_to(self.base_url, self._env, self._certificate)
        except ValueError as error:
            raise InputError(f"base_url '{self.base_url}' is not a URL: {error}.") from None
        headers = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key}"}
        self._client = HTTPClient(
            route,
            headers=headers,
            env=self._env,
            timeout_s=self._timeout_s,
            connect_timeout_s=self._connect_timeout_s,
            idle_timeout_s=self._idle_timeout_s,
        )

    async def close(self) -> None:
        """Close the connections. Does nothing when they are already closed."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def remember(self, ask: Callable[[], Ask]) -> None:
        """Take note of a request that was answered before; ``ask`` makes it, in a thread, if it is needed.

        When all attempts fail, it is sent again: it tells an endpoint that fails from rows that always fail.
        """
        if self._answered_ask is None:
            self._answered_ask = ask

    async def call(self, ask: Ask) -> Response:
        """Send a request; retry until an answer can be read or the policy gives up.

        Returns:
            The answer, or a response of status ``error`` with its kind and one line for each failed attempt.

        Raises:
            RequestRefused: the key or the model is refused, which usually affects every call.
            EndpointFailed: no call can succeed: the server does not answer at all, or the account's quota is used up.
            BudgetSpent: a limit of the run was reached while the call waited.
        """
        started = time.monotonic()
        errors: list[str] = []
        reserved = 0.0
        while True:
            if self._rates.limited:
                turn, reserved = self._rates.turn(ask.body or b"")
                if turn > 0:
                    waiting = time.monotonic()
                    await self._limiter.wait(turn)
                    started += time.monotonic() - waiting
            attempt = self._breaker.sent()
            try:
                result = await self._attempt(ask)
            finally:
                self._breaker.ended(attempt)
            if isinstance(result, Response):
                self._went_through()
                if self._answered_ask is None:
                    self._answered_ask = lambda: ask
                if self._rates.limited:
                    self._rates.used(reserved, _tokens_of(result))
                result.attempts = len(errors) + 1
                result.errors = errors
                return result
            errors.append(result.message)
            if result.action is Action.REFUSED:
                self._breaker.answered()
                response = Response("error", error_kind=result.kind, attempts=len(errors), errors=errors)
                raise RequestRefused(f"{self.base_url} answers {result.message}.{self._remedy(result)}", response)
            wait = await self._after(result, len(errors), time.monotonic() - started)
            if wait is None:
                return Response("error", error_kind=result.kind, attempts=len(errors), errors=errors)
            tell_retry(len(errors), result.kind, result.message, wait)
            await self._limiter.pause(wait)

    def _remedy(self, failure: Failure) -> str:
        if failure.kind in {"http_401", "http_403"}:
            return " Set the key that 'api_key' refers to."
        if failure.kind in {"http_404", "http_501", "http_505", "malformed"}:
            without_path = not urlsplit(self.base_url).path.strip("/")
            usual = ", which usually ends with /v1," if without_path else ""
            model = " and 'model'" if failure.kind == "http_404" else ""
            return f" Check 'base_url'{usual}{model}."
        if failure.kind == "quota":
            return " The account's quota is used up."
        return " Set 'base_url' to where it points: requests are not redirected."

    def _went_through(self) -> None:
        self._breaker.answered()
        self._limiter.answered()

    async def _after(self, failure: Failure, attempts: int, elapsed_s: float) -> float | None:
        """Seconds to wait after a failed attempt; None to give up the row.

        Raises:
            EndpointFailed: no other call can succeed either.
        """
        unreachable = failure.kind == "unreachable"
        if failure.action is Action.FATAL and not unreachable:
            raise EndpointFailed(f"{self.base_url} answers {failure.message}.{self._remedy(failure)}")
        if failure.action is Action.ROW:
            self._went_through()
            return None
        if failure.kind in _OVERLOAD:
            self._limiter.overloaded()
        failing = self._breaker.opened_by(failure, attempts)
        if failing is not None and (unreachable or failure.is_refusal or not await self._still_answers()):
            what = "cannot be reached" if unreachable else "refuses all requests" if failure.is_refusal else "fails"
            raise EndpointFailed(
                f"{self.base_url} {what}: every attempt failed for {failing:.0f} s ({failure.message})."
            )
        wait = self._policy.wait_s(attempts, elapsed_s, failure)
        if wait is None and unreachable:
            never = self._answered_at < time.monotonic() - elapsed_s
            if never or failure.action is Action.FATAL:
                raise EndpointFailed(f"{self.base_url} cannot be reached ({failure.message}; {attempts} attempts).")
        return self._breaker.soonest(wait) if unreachable and wait is not None else wait

    async def _still_answers(self) -> bool:
        """Whether the endpoint still answers a request that it answered before. Makes a single attempt, which counts
        for no row.
        """
        async with self._probing:
            if not self._breaker.is_failing:
                # It answered while this call waited.
                return True
            if self._answered_ask is None:
                return False
            try:
                ask = await asyncio.to_thread(self._answered_ask)
            except GageError:
                # Its media are gone.
                return False
            result = await self._attempt(ask)
            answers = isinstance(result, Response) or result.action is not Action.RETRY or result.is_refusal
            if answers:
                self._breaker.answered()
            return answers

    async def _attempt(self, ask: Ask) -> Response | Failure:
        """Send one request. Returns the answer or the failure."""
        assert self._client is not None, "the endpoint is not open"
        events = _Events() if ask.stream else None
        sent = time.monotonic()
        try:
            sink_of = events.sink_of if events is not None else None
            answer = await (
                self._client.get(ask.path)
                if ask.body is None
                else self._client.post(ask.path, ask.body, sink_of, ask.content_type)
            )
        except NoAnswer as error:
            return Failure(Action.RETRY, "timeout", str(error))
        except Unreachable as error:
            return self._refused(str(error))
        except (Malformed, Unusable) as error:
            return Failure(Action.RETRY, "malformed", self._hide(str(error)))
        except Broken as error:
            return Failure(Action.RETRY, "connection", self._hide(str(error)))
        self._answered_at = answered_at = time.monotonic()
        self._warned = False
        if answer.status != 200:
            failure = classify(answer.status, answer.body, answer.header(b"retry-after"))
            return Failure(failure.action, failure.kind, self._hide(failure.message), failure.retry_after_s)
        try:
            streamed = None if events is None else events.reply()
            response = ask.read(ask.parse(answer.body) if streamed is None else streamed)
        except Malformed as error:
            if is_page(answer.body):
                return Failure(Action.REFUSED, "malformed", f"200 ({A_PAGE})")
            return Failure(Action.RETRY, "malformed", self._hide(str(error)))
        for echoed in self._echoed:
            if echoed.is_secret:
                _mask(response, echoed)
        response.latency_ms = (answered_at - sent) * 1000.0
        if events is not None and events.first_token_at is not None:
            response.ttft_ms = (events.first_token_at - sent) * 1000.0
        return response

    def _refused(self, reason: str) -> Failure:
        if self._is_alive is not None and not self._is_alive():
            return Failure(Action.FATAL, "unreachable", f"its server stopped: {reason}")
        if not self._warned:
            self._warned = True
            _log.warning("%s cannot be reached (%s); retrying for a while.", self.base_url, reason)
        return Failure(Action.RETRY, "unreachable", reason)

    def _hide(self, text: str) -> str:
        """The text without secrets, in case an endpoint repeats one."""
        for echoed in self._echoed:
            text = echoed.masked_in_error(text)
        return _SIGNATURE.sub(r"\1…", text)


def data_url(data: bytes, known: str | None = None) -> str:
    """A data URL of media bytes, with the known type or else the type found from the content."""
    return f"data:{known or media_type(data)};base64,{base64.b64encode(data).decode()}"


# Of a URL that gives access to an object of a store.
_SIGNATURE = re.compile(r"((?:signature|security-token)=)[^&\s\"'\\]+", re.IGNORECASE)


class _Events:
    """Puts a stream's events together while they come; any other answer stays as it is."""

    def __init__(self) -> None:
        self._stream: Stream | None = None

    def sink_of(self, answer: Answer) -> Sink | None:
        """The receiver of an answer's body, piece by piece."""
        kind = (answer.header(b"content-type") or "").partition(";")[0].strip().lower()
        if answer.status != 200 or kind != _EVENTS:
            return None
        self._stream = Stream()
        return self._stream.feed

    def reply(self) -> dict[str, Any] | None:
        """The answer assembled from the events; None if there were none.

        Raises:
            Malformed: the stream ended before the answer was complete, or its pieces make no answer.
        """
        return None if self._stream is None else self._stream.reply()

    @property
    def first_token_at(self) -> float | None:
        """`time.monotonic` at the arrival of the stream's first token."""
        return None if self._stream is None else self._stream.first_token_at


def _mask(response: Response, echoed: EchoedKey) -> None:
    """Replace a key that an endpoint repeats, in all texts of its answer."""
    for name in _TEXTS:
        text = getattr(response, name)
        if text is not None:
            setattr(response, name, echoed.masked_in(text))


def _tokens_of(response: Response) -> int | None:
    """Tokens of an answer; None where the endpoint does not count them."""
    counted = [count for count in (response.prompt_tokens, response.completion_tokens) if count is not None]
    return sum(counted) if counted else None
