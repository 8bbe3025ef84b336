"""Episodes: all calls of models and tools for one sample and replicate.

An episode is a coroutine that asks and runs tools through a `Calls` and returns the last response. Each of its calls
has a key and a record in the write-ahead log. An episode that was killed half-way starts again, and the log answers the
calls it had made.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Any, Protocol, TypeAlias, TypeVar

from gage_eval.base.canonical import JsonValue, decode, digest, encode
from gage_eval.base.statuses import UNANSWERED
from gage_eval.box.types import BoxError
from gage_eval.engine.agents.program import run_program
from gage_eval.engine.simulator import Simulator, SimulatorFailed, speaks_first
from gage_eval.engine.tools.sets import merged
from gage_eval.extend.loading import PluginError
from gage_eval.models.client.episode_limits import EpisodeLimits
from gage_eval.models.client.tools import EpisodeState, Observation, ToolFailed, Tools
from gage_eval.models.client.types import RenderFailure, Request, Response, called_function

N = TypeVar("N", int, float)


class Calls(Protocol):
    """How an episode calls its model and its tools."""

    state: EpisodeState
    """What the attempt keeps until it ends."""

    def generate(self, request: Request) -> Coroutine[Any, Any, Response]:
        """The answer from the log, else from the model. A new answer is logged before it is returned."""

    def ask_user(self, request: Request) -> Coroutine[Any, Any, Response]:
        """As `generate`, from the model of the simulated user."""

    async def run_tool(self, name: str, arguments: str, tools: Tools | None = None) -> Observation:
        """The output of a tool, from the journal or of running it. A new output is logged before it is returned.

        Args:
            name: one of the tools; any other gets an error as its output.
            arguments: JSON text.
            tools: those of the simulated user; by default those of the episode's request.

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

    The tools run one after another. A model that still calls tools after ``tool_rounds`` rounds, or at another limit of
    the request, gets the status ``limit`` (``looped`` for one call over and over), and the answer is what it said last.
    With a simulated user, each answer is followed by a turn of the user, who speaks first unless the last message is
    one of a user.
    """
    limits = request.limits or EpisodeLimits()
    seen: Counter[tuple[str, str, str]] = Counter()
    history = list(request.messages or [])
    choice = request.tool_choice
    turns: list[Response] = []
    simulator = None if request.user is None else Simulator(request.user, calls, _observing, _calls_of, history)
    is_users_turn = simulator is not None and speaks_first(history)
    rounds = rounds_in_turn = 0
    while True:
        if simulator is not None and is_users_turn:
            try:
                spoken = await simulator.turn(turns[-1].answer or "" if turns else None)
            except SimulatorFailed as error:
                return _failed([*turns, *error.turns], error.kind, str(error))
            if spoken.at_limit:
                turns[-1] = _limited(turns[-1], "turns", "the simulated user did not end the conversation")
                break
            turns += spoken.turns
            if spoken.text is None:
                break
            history.append({"role": "user", "content": spoken.text})
            rounds_in_turn = 0
            if spoken.tool_names and request.tool_set is not None:
                request = replace(request, tools=merged(request.tools, request.tool_set.defined(spoken.tool_names)))
        turn = replace(request, kind="chat", messages=list(history), tool_choice=choice)
        response = await calls.generate(turn)
        turns.append(response)
        called = _calls_of(response)
        if response.status in UNANSWERED or not (called or simulator):
            break
        own = _of_model(turns)
        reached = limits.reached(
            sum(turn.prompt_tokens or 0 for turn in own),
            sum(turn.completion_tokens or 0 for turn in own),
            sum(turn.latency_ms or 0.0 for turn in own) / 1000,
            sum(ms for turn in own for ms in turn.tool_ms or ()) / 1000,
        )
        rounds, rounds_in_turn = rounds + bool(called), rounds_in_turn + bool(called)
        if rounds > request.tool_rounds:
            reached = "rounds", f"the model called tools in more than {request.tool_rounds:,} rounds"
        elif rounds_in_turn > (limits.rounds_per_turn or math.inf):
            reached = "rounds", f"the model called tools in more than {limits.rounds_per_turn:,} rounds of one turn"
        elif called and max(seen.values(), default=0) >= (limits.same_calls or math.inf):
            reached = "same_calls", f"one call had the same output {limits.same_calls:,} times"
        if reached is not None:
            turns[-1] = _limited(response, *reached)
            break
        if is_users_turn := not called:
            history.append({"role": "assistant", "content": response.answer or ""})
            continue
        history.append({"role": "assistant", "content": response.answer or "", "tool_calls": called})
        observed: list[Observation] = []
        for call in called:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            try:
                observation = await calls.run_tool(name, arguments)
            except ToolFailed as error:
                turns[-1] = _observing(response, observed)
                return _failed(turns, error.kind, str(error))
            observed.append(observation)
            seen[name, arguments, observation.content] += 1
            history.append({"role": "tool", "tool_call_id": call["id"], "content": observation.content})
        turns[-1] = _observing(response, observed)
        # A model that is forced to call a tool would never answer.
        choice = None if choice is None else "auto"
    if not _of_model(turns):
        return _failed(turns, "simulator_error", "the simulated user ended before the model was asked")
    outcome = _outcome(turns)
    if request.tool_set is None or turns[-1].status in UNANSWERED:
        return outcome
    try:
        artifacts = await request.tool_set.final_state(calls.state)
    except BoxError as error:
        return _failed(turns, "box_error", str(error))
    return replace(outcome, response=replace(outcome.response, artifacts=artifacts))


async def reasoned(calls: Calls, request: Request) -> Outcome:
    """Let the model reason, then ask the follow-up of the request; the answer is that to the follow-up."""
    follow_up = request.follow_up
    assert follow_up is not None
    first = await calls.generate(replace(request, kind="chat", follow_up=None))
    if first.status in UNANSWERED:
        return Outcome(first)
    history = [
        *(request.messages or []),
        {"role": "assistant", "content": first.answer or ""},
        {"role": "user", "content": follow_up.question},
    ]
    params = {**request.params, **follow_up.params}
    second = await calls.generate(replace(request, kind="chat", messages=history, params=params, follow_up=None))
    return _outcome([first, second])


async def program(calls: Calls, request: Request) -> Outcome:
    """Run the program of the request's agent, which asks the model as often as it likes, and take its answer."""
    ended = await run_program(calls.generate, request, calls.state, _calls_of)
    outcome = _outcome([*ended.turns] or [Response("ok")])
    whole = Response(
        ended.status,
        ended.answer,
        error_kind=ended.error_kind,
        artifacts=ended.artifacts,
        errors=[*outcome.response.errors, *filter(None, (ended.sentence,))],
    )
    costs = ("prompt_tokens", "completion_tokens", "latency_ms", "ttft_ms", "attempts", "model_fingerprint")
    return Outcome(replace(whole, **{name: getattr(outcome.response, name) for name in costs}), ended.turns)


async def similarity(calls: Calls, request: Request) -> Outcome:
    """How near the first message is in meaning to the nearest of the others: the cosine of their embeddings, -1 to 1.

    Each is a text or a medium. The answer is ``SCORE: 0.873125``, as a judge would write it.
    """
    replies: list[Response] = []
    first_message, *other_messages = request.messages or [{"content": ""}]
    told = [message for message in other_messages if not _is_blank(message)]
    if not told:
        return Outcome(Response("skipped", error_kind="empty_prompt"))
    # Endpoints refuse an empty text: it is like nothing.
    if _is_blank(first_message):
        return Outcome(Response("ok", answer="SCORE: 0"))
    for message in (first_message, *told):
        is_text = isinstance(message["content"], str)
        embedded = {"messages": None, "prompt": message["content"]} if is_text else {"messages": [message]}
        replies.append(await calls.generate(replace(request, kind="embed", **embedded)))
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


def _is_blank(message: Mapping[str, Any]) -> bool:
    return isinstance(message["content"], str) and not message["content"].strip()


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """The cosine of the angle between two vectors that are not zero."""
    # Scaled first, so that squares neither overflow nor vanish.
    a, b = ([value / max(map(abs, vector)) for value in vector] for vector in (a, b))
    return math.fsum(map(mul, a, b)) / math.hypot(*a) / math.hypot(*b)


def _of_model(turns: Sequence[Response]) -> list[Response]:
    """The turns of the model under test."""
    return [turn for turn in turns if turn.actor is None]


def _limited(response: Response, kind: str, sentence: str) -> Response:
    """A turn at a limit of its episode, or in a loop."""
    status = "looped" if kind == "same_calls" else "limit"
    return replace(response, status=status, error_kind=kind, errors=[*response.errors, sentence])


def _outcome(turns: list[Response]) -> Outcome:
    """The model's last response, with the costs of all its responses."""
    own = _of_model(turns)
    whole = replace(
        own[-1],
        tool_outputs=None,
        tool_statuses=None,
        tool_ms=None,
        tool_sources=None,
        call_key=None,
        prompt_tokens=_sum([turn.prompt_tokens for turn in own]),
        completion_tokens=_sum([turn.completion_tokens for turn in own]),
        latency_ms=_sum([turn.latency_ms for turn in own]),
        ttft_ms=own[0].ttft_ms,
        attempts=sum(turn.attempts for turn in own),
        errors=[error for turn in own for error in turn.errors],
    )
    return Outcome(whole, turns)


def _observing(response: Response, observed: Sequence[Observation]) -> Response:
    """A turn with what the tools answered that it called."""
    return replace(
        response,
        tool_outputs=[observation.content for observation in observed],
        tool_statuses=["error" if observation.is_error else "ok" for observation in observed],
        tool_ms=[observation.ms for observation in observed],
        tool_sources=[observation.source for observation in observed],
    )


def _failed(turns: list[Response], kind: str, sentence: str) -> Outcome:
    """An error that is not the model's, after these responses."""
    response = _outcome(turns).response if _of_model(turns) else Response("error")
    failures = [line for turn in turns if turn.actor is not None for line in turn.errors]
    errors = [*response.errors, *failures, sentence]
    return Outcome(replace(response, status="error", error_kind=kind, errors=errors), turns)


def _sum(counts: Sequence[N | None]) -> N | None:
    """The sum; None if one of the counts is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known[1:], known[0]) if len(known) == len(counts) else None


def _calls_of(response: Response) -> list[dict[str, Any]]:
    """The tool calls of an answer, in the form in which they are sent back. Anything else is left out."""
    recorded = decode(response.tool_calls) if response.tool_calls else []
    calls = []
    for number, call in enumerate(recorded if isinstance(recorded, list) else []):
        if (function := called_function(call)) is not None:
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
    "reasoned": reasoned,
    "similarity": similarity,
    "partial_likelihood": partial_likelihood,
    "agent": program,
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
        limits = "" if request.limits is None else f" {digest(request.limits.identity)}"
        user = "" if request.user is None else f" {digest(request.user.identity)}"
        return f"tools {request.tool_rounds} {digest(request.tool_set and request.tool_set.identity)}{limits}{user}"
    if request.follow_up is not None:
        return f"reasoned {digest(request.follow_up.identity)}"
    if request.agent is not None:
        return f"agent {digest([request.agent.identity, request.limits and request.limits.identity])}"
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
