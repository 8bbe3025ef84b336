"""Episodes: all calls of models and tools for one sample and replicate.

An episode is a coroutine that asks and runs tools through a `Calls` and returns the last response. Each of its calls
has a key and a record in the write-ahead log. An episode that was killed half-way starts again, and the log answers the
calls it had made.
"""

import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Any, Protocol, TypeAlias, TypeVar

from gage_eval.base.canonical import JsonValue, decode, digest, encode
from gage_eval.base.statuses import UNANSWERED
from gage_eval.extend.loading import PluginError
from gage_eval.models.client.tools import ToolFailed
from gage_eval.models.client.types import RenderFailure, Request, Response

N = TypeVar("N", int, float)


class Calls(Protocol):
    """How an episode calls its model and its tools."""

    async def generate(self, request: Request) -> Response:
        """The answer from the log, else from the model. A new answer is logged before it is returned."""

    async def run_tool(self, name: str, arguments: str) -> str:
        """The output of a tool, from the journal or of running it. A new output is logged before it is returned.

        Args:
            name: one of the tools of the episode's request; any other gets an error as its output.
            arguments: JSON text.

        Raises:
            ToolFailed: the tool cannot be run, which is not the model's fault.
        """


@dataclass(slots=True)
class Outcome:
    """The result of an episode.

    Attributes:
        response: the last response, with the summed tokens, times, attempts and errors; its status is the row's.
        turns: all responses in order, if there were several.
        source: ``sent``, ``log`` (answered by an earlier process of the same action), ``reused`` (by another run) or
            ``repeated`` (another row has the same request).
    """

    response: Response
    turns: Sequence[Response] = ()
    source: str = "sent"

    def to_bytes(self) -> bytes:
        """The payload of a log record: the response and the turns."""
        return b"[%b]" % b",".join(response.to_bytes() for response in (self.response, *self.turns))

    @classmethod
    def from_bytes(cls, payload: bytes) -> "Outcome":
        """The outcome of a log record."""
        response, *turns = (Response.from_bytes(encode(values)) for values in decode(payload))
        return cls(response, turns, "log")


Episode: TypeAlias = Callable[[Calls, Request], Awaitable[Outcome]]


async def multi_turn(calls: Calls, request: Request) -> Outcome:
    """Ask the user messages one after another, each with the answers before it (MT-bench).

    A user message that is followed by an assistant message (an example, a recorded turn) is not asked. A turn that
    ends in an error or is skipped ends the episode with that status.
    """
    history = []
    turns: list[Response] = []
    messages = request.messages or []
    for index, message in enumerate(messages):
        history.append(message)
        answered = index + 1 < len(messages) and messages[index + 1]["role"] == "assistant"
        if message["role"] != "user" or answered:
            continue
        response = await calls.generate(replace(request, kind="chat", messages=list(history)))
        turns.append(response)
        if response.status in UNANSWERED:
            break
        history.append({"role": "assistant", "content": response.answer or ""})
    return _outcome(turns) if turns else Outcome(Response("skipped", error_kind="empty_prompt"))


async def tool_calls(calls: Calls, request: Request) -> Outcome:
    """Answer the model's tool calls with the tools of the request, until the model gives an answer.

    The tools run one after another. A model that still calls tools after ``tool_rounds`` rounds has reached its limit:
    the status is ``limit``, and the answer is what it said last.
    """
    history = list(request.messages or [])
    choice = request.tool_choice
    turns: list[Response] = []
    for round_number in range(request.tool_rounds + 1):
        turn = replace(request, kind="chat", messages=list(history), tool_choice=choice)
        response = await calls.generate(turn)
        turns.append(response)
        called = _calls_of(response)
        if not called or response.status in UNANSWERED:
            break
        if round_number == request.tool_rounds:
            turns[-1] = replace(response, status="limit")
            break
        history.append({"role": "assistant", "content": response.answer or "", "tool_calls": called})
        outputs: list[str] = []
        turns[-1] = replace(response, tool_outputs=outputs)
        for call in called:
            try:
                content = await calls.run_tool(call["function"]["name"], call["function"]["arguments"])
            except ToolFailed as error:
                return _failed(turns, error.kind, str(error))
            outputs.append(content)
            history.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        # A model that is forced to call a tool would never answer.
        choice = None if choice is None else "auto"
    return _outcome(turns)


async def similarity(calls: Calls, request: Request) -> Outcome:
    """How near the first message is in meaning to the nearest of the others: the cosine of their embeddings, -1 to 1.

    The answer is ``SCORE: 0.873125``, as a judge would write it.
    """
    replies: list[Response] = []
    texts = [message["content"] for message in request.messages or []]
    if not any(map(str.strip, texts[1:])):
        return Outcome(Response("skipped", error_kind="empty_prompt"))
    # Endpoints refuse an empty text: it is like nothing.
    if not texts[0].strip():
        return Outcome(Response("ok", answer="SCORE: 0"))
    for text in filter(str.strip, texts):
        replies.append(await calls.generate(replace(request, kind="embed", messages=None, prompt=text)))
        if replies[-1].status in UNANSWERED:
            return Outcome(replies[-1])
    first, *others = (decode(reply.answer or "[]") for reply in replies)
    if any(len(other) != len(first) or not any(other) for other in (first, *others)):
        said = "the embeddings have different lengths, or no direction"
        return Outcome(Response("error", error_kind="malformed", attempts=len(replies), errors=[said]))
    whole = _outcome(replies).response
    return Outcome(replace(whole, answer=f"SCORE: {max(_cosine(first, other) for other in others):.6f}"))


async def partial_likelihood(calls: Calls, request: Request) -> Outcome:
    """The log-likelihood of the prompt after each choice (partial evaluation: Trinh and Le 2018, arXiv:1806.02847)."""
    replies: list[Response] = []
    for context in request.choices or []:
        call = replace(request, kind="likelihood", messages=None, prompt=context, choices=[request.prompt or ""])
        replies.append(await calls.generate(call))
        if replies[-1].status in UNANSWERED:
            return Outcome(replies[-1])
    entries = [decode(reply.logprobs or "{}").get("choices") for reply in replies]
    if any(not isinstance(entry, list) or len(entry) != 1 for entry in entries):
        failed = Response("error", error_kind="malformed", errors=["an answer has no log-likelihood"])
        return Outcome(replace(failed, attempts=len(replies)))
    whole = _outcome(replies).response
    return Outcome(replace(whole, logprobs=encode({"choices": [entry for (entry,) in entries]}).decode()))


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """The cosine of the angle between two vectors that are not zero."""
    # Scaled first, so that squares neither overflow nor vanish.
    a, b = ([value / max(map(abs, vector)) for value in vector] for vector in (a, b))
    return math.fsum(map(mul, a, b)) / math.hypot(*a) / math.hypot(*b)


def _outcome(turns: list[Response]) -> Outcome:
    """The last response, with the costs of all responses."""
    whole = replace(
        turns[-1],
        tool_outputs=None,
        prompt_tokens=_sum([turn.prompt_tokens for turn in turns]),
        completion_tokens=_sum([turn.completion_tokens for turn in turns]),
        latency_ms=_sum([turn.latency_ms for turn in turns]),
        ttft_ms=turns[0].ttft_ms,
        attempts=sum(turn.attempts for turn in turns),
        errors=[error for turn in turns for error in turn.errors],
    )
    return Outcome(whole, turns)


def _failed(turns: list[Response], kind: str, sentence: str) -> Outcome:
    """An error that is not the model's, after these responses."""
    outcome = _outcome(turns)
    response = outcome.response
    return replace(
        outcome, response=replace(response, status="error", error_kind=kind, errors=[*response.errors, sentence])
    )


def _sum(counts: Sequence[N | None]) -> N | None:
    """The sum; None if one of the counts is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known[1:], known[0]) if len(known) == len(counts) else None


def _calls_of(response: Response) -> list[dict[str, Any]]:
    """The tool calls of an answer, in the form in which they are sent back. Anything else is left out."""
    recorded = decode(response.tool_calls) if response.tool_calls else []
    calls = []
    for number, call in enumerate(recorded if isinstance(recorded, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
            # The endpoint chooses ids at random. With fixed ids, equal conversations have equal response keys.
            calls.append(
                {"id": f"call_{number}", "type": "function", "function": {"name": function["name"], "arguments": text}}
            )
    return calls


# Kinds of requests that need more than one call. All other kinds are one call.
EPISODES: dict[str, Episode] = {
    "turns": multi_turn,
    "tools": tool_calls,
    "similarity": similarity,
    "partial_likelihood": partial_likelihood,
}
_CALLS_OF = {"similarity": "embed", "partial_likelihood": "likelihood"}


def kind_of_calls(kind: str) -> str:
    """The kind of the calls that requests of a kind are made of."""
    return _CALLS_OF.get(kind, "chat") if kind in EPISODES else kind


def as_call(request: Request) -> Request:
    """The request whose body is the key of an episode: its whole conversation as one call."""
    if request.kind == "partial_likelihood":
        return replace(request, kind="likelihood")
    return replace(request, kind="chat") if request.kind in EPISODES else request


def with_body(
    body: Callable[[Request], dict[str, JsonValue]], request: Request
) -> tuple[Request, dict[str, JsonValue]]:
    """A request with its body. Where a plug-in's backend fails on it, it is `Request.unasked`.

    Args:
        body: makes the body of a call.
        request: the request.
    """
    try:
        return request, body(as_call(request))
    except PluginError as error:
        return replace(request, unasked=RenderFailure("plugin", str(error))), {}


def episode_name(request: Request) -> str:
    """Distinguishes an episode from a single call with the same body; empty for a single call.

    A request that cannot be sent has a unique name, so that no answer is found for it.
    """
    if request.unasked is not None:
        return f"unasked {request.sample_id}"
    if request.kind == "tools":
        return f"tools {request.tool_rounds} {digest(request.tool_set and request.tool_set.identity)}"
    return request.kind if request.kind in EPISODES else ""


def response_key(model_identity: str, body: bytes, draw: int, episode: str = "") -> str:
    """Key of an answer: which model, which request, which draw; 64 hex digits.

    Args:
        model_identity: digest of the model's identity.
        body: the effective request body in canonical JSON.
        draw: index of the draw, so that repeated draws are distinct at any temperature.
        episode: name of a multi-call episode; the key then stands for its whole outcome.
    """
    return hashlib.sha256(f"{model_identity}\0{draw}\0{episode}\0".encode() + body).hexdigest()
