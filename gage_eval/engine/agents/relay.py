"""The relay: what a program in a box asks a model through, as if it were OpenAI's or Anthropic's API.

Each request is a call of the program's episode: it has a key, is limited, logged and, after a kill, answered by the
log. The nth equal request of an episode is its nth draw. A request that is sent again, because its answer did not come
in time or was dropped, gets the answer of the first.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gage_eval.base.canonical import JsonValue, canonical_json, decode, digest
from gage_eval.base.errors import GageError, InputError
from gage_eval.base.statuses import UNANSWERED
from gage_eval.engine.agents.dialects import DIALECTS, Ask, Said
from gage_eval.models.client.agents import Agent
from gage_eval.models.client.episode_limits import EpisodeLimits
from gage_eval.models.client.http_server import HTTPRequest, Refusal, Reply
from gage_eval.models.client.types import Request, Response

# Further draws of an episode start here: above the repetitions of a sample.
_DRAWS = 1 << 32
# Errors of a request that are the program's own: too long a prompt, for example.
_OF_THE_PROGRAM = frozenset({"http_400", "http_413", "http_422", "context_too_long", "bad_request", "request"})
_SECRET = "SECRET"  # noqa: S105 - what stands for it

Generate = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(eq=False)
class Turn:
    """A request of the program.

    Attributes:
        answer: of the model.
        is_lost: the program did not get it.
        outputs: what the program's tools answered, by the place of the call.
        idempotency: keys under which it was sent.
    """

    answer: asyncio.Task[Response]
    is_lost: bool = False
    outputs: dict[int, str] = field(default_factory=dict)
    idempotency: set[str] = field(default_factory=set)


class Relay:
    """The relay of one attempt of an episode.

    Args:
        generate: asks the model; the answer is logged.
        request: of the episode.
        calls_of: the calls of tools in a response.

    Attributes:
        failed: done where the program's requests cannot be answered any more: the response, or what ends the run.
        limit: the limit that was reached: its kind and a sentence.
    """

    def __init__(
        self, generate: Generate, request: Request, calls_of: Callable[[Response], list[dict[str, Any]]]
    ) -> None:
        assert request.agent is not None
        self._agent: Agent = request.agent
        self._generate, self._request, self._calls_of = generate, request, calls_of
        self._secret = secrets.token_urlsafe(24)
        self._turns: list[Turn] = []
        self._equal: dict[str, list[Turn]] = {}
        self._called: dict[str, tuple[Turn, int]] = {}
        self.failed: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.limit: tuple[str, str] | None = None

    def environment(self, port: int) -> dict[str, str]:
        """The variables that lead programs here."""
        address = f"http://127.0.0.1:{port}/{self._secret}"
        return {
            **dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_BASE"), f"{address}/v1"),
            "ANTHROPIC_BASE_URL": address,
            # Clients need one. It opens nothing.
            **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "none"),
        }

    def without_secret(self, text: bytes) -> bytes:
        """A text of the program, in which a fixed word stands for the secret."""
        return text.replace(self._secret.encode(), _SECRET.encode())

    async def turns(self) -> list[Response]:
        """The answers that the model gave, in the order of the requests, with the outputs of its tools."""
        await asyncio.gather(*(turn.answer for turn in self._turns), return_exceptions=True)
        turns = []
        for turn in self._turns:
            if turn.answer.cancelled() or turn.answer.exception() is not None:
                continue
            response = turn.answer.result()
            if response.status not in UNANSWERED:
                outputs = [turn.outputs.get(at, "") for at in range(len(self._calls_of(response)))]
                turns.append(replace(response, tool_outputs=outputs) if turn.outputs else response)
        return turns

    def close(self) -> None:
        """Drop the requests that are not answered."""
        for turn in self._turns:
            turn.answer.cancel()

    async def answer(self, request: HTTPRequest) -> Reply:
        """The reply to a request.

        Raises:
            Refusal: it cannot be answered.
        """
        _, _, rest = request.target.partition("?")[0].partition("/")
        secret, _, path = rest.partition("/")
        if not secrets.compare_digest(secret.encode("latin-1"), self._secret.encode()):
            raise Refusal(404, "nothing is here: take the address from OPENAI_BASE_URL or ANTHROPIC_BASE_URL")
        path = path.removeprefix("v1/").strip("/")
        if path in DIALECTS and request.method == "POST":
            return await self._asked(path, request)
        if path == "models" or path.startswith("models/"):
            model: JsonValue = {"id": path[7:] or "model", "object": "model", "created": 0, "owned_by": "relay"}
            return Reply(200, canonical_json(model if path[7:] else {"object": "list", "data": [model]}))
        if path == "messages/count_tokens":
            raise Refusal(404, "this relay counts no tokens before the model is asked")
        raise Refusal(404, f"this relay answers POST to {', '.join(DIALECTS)} and GET of models")

    async def _asked(self, path: str, request: HTTPRequest) -> Reply:
        dialect = DIALECTS[path]
        try:
            body = decode(self.without_secret(request.body))
        except ValueError as error:
            raise Refusal(400, f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refusal(400, "the body is not a JSON object")
        try:
            ask = dialect.read(body)
            key = digest([ask.messages, ask.tools, ask.tool_choice, ask.params])
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the request has no plain form: {error}") from None
        if ask.tools and not self._agent.takes_tools:
            raise Refusal(400, "the model cannot call tools")
        for call, text in ask.outputs.items():
            if call in self._called:
                turn, place = self._called[call]
                turn.outputs.setdefault(place, text)
        turn = self._turn(ask, key, request.headers)
        # Several requests may wait for the answer, and each may be dropped.
        try:
            response = await asyncio.shield(turn.answer)
        except GageError as error:
            # It ends the episode, and perhaps the run.
            raise Refusal(403, str(error)) from None
        if response.status in UNANSWERED:
            sentence = next(reversed(response.errors), "the model gave no answer")
            raise Refusal(400 if response.error_kind in _OF_THE_PROGRAM else 403, sentence)
        identifier = f"{key[:20]}{self._equal[key].index(turn) or ''}"
        said = Said.of(response, self._calls_of(response), identifier, ask.model)
        for place, (call, _, _) in enumerate(said.calls):
            self._called[call] = (turn, place)

        def lost() -> None:
            turn.is_lost = True

        content_type, written = dialect.written(said, ask)
        return Reply(200, written, content_type, lost)

    def _turn(self, ask: Ask, key: str, headers: Mapping[str, str]) -> Turn:
        """The turn of a request: an earlier one that is asked for again, or a new one."""
        equal = self._equal.setdefault(key, [])
        idempotency = headers.get("idempotency-key", "")
        for turn in equal:
            if idempotency and idempotency in turn.idempotency:
                return turn
        if equal and (equal[-1].is_lost or headers.get("x-stainless-retry-count", "0") != "0"):
            equal[-1].is_lost = False
            equal[-1].idempotency.add(idempotency)
            return equal[-1]
        self._admit()
        request = replace(
            self._request,
            kind="chat",
            messages=ask.messages,
            prompt=None,
            tools=ask.tools,
            tool_choice=ask.tool_choice if ask.tools else None,
            params={**self._request.params, **ask.params},
            draw=self._request.draw + len(equal) * _DRAWS,
            agent=None,
            limits=None,
        )
        turn = Turn(asyncio.create_task(self._generated(request)), idempotency={idempotency})
        turn.answer.add_done_callback(self._answered)
        self._turns.append(turn)
        equal.append(turn)
        return turn

    async def _generated(self, request: Request) -> Response:
        try:
            return await self._generate(request)
        except (InputError, ValueError) as error:
            # The backend has no body for it.
            return Response("error", error_kind="request", errors=[str(error)])

    def _admit(self) -> None:
        """Check the limits before another turn."""
        done = [turn.answer.result() for turn in self._turns if _is_answered(turn)]
        reached = (self._request.limits or EpisodeLimits()).reached(
            sum(turn.prompt_tokens or 0 for turn in done),
            sum(turn.completion_tokens or 0 for turn in done),
            sum(turn.latency_ms or 0.0 for turn in done) / 1000,
        )
        if len(self._turns) >= self._agent.max_turns:
            reached = "turns", f"the program asked for more than {self._agent.max_turns:,} turns"
        if reached is not None:
            self.limit = reached
            # Clients send a request again after other statuses.
            raise Refusal(403, f"a limit is reached: {reached[1]}")

    def _answered(self, answer: asyncio.Task[Response]) -> None:
        """Tell the episode of what ends it."""
        if answer.cancelled() or self.failed.done():
            return
        if (error := answer.exception()) is not None:
            self.failed.set_exception(error)
            return
        response = answer.result()
        if response.status == "error" and response.error_kind not in _OF_THE_PROGRAM:
            self.failed.set_result(response)


def _is_answered(turn: Turn) -> bool:
    answer = turn.answer
    return answer.done() and not answer.cancelled() and answer.exception() is None
