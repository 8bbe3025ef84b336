"""Requests to a backend and its responses, and the kinds of requests there are."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from gage_eval.base.errors import EndpointFailed
from gage_eval.box.types import BoxSpec, Limits, Program
from gage_eval.models.client.agents import Agent
from gage_eval.models.client.episode_limits import EpisodeLimits
from gage_eval.models.client.tools import Tools

_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RenderFailure:
    """Why a request cannot be made: its prompt or a plug-in failed on its sample.

    Attributes:
        kind: the error kind of its row: ``prompt_failed``, ``hook_failed``, ``plugin``, ``no_partner`` or
            ``no_reference``.
        message: what failed, one sentence.
        status: of its row; ``skipped`` where nothing failed, and there is nothing to ask.
    """

    kind: str
    message: str
    status: Literal["error", "skipped"] = "error"


@dataclass(frozen=True, slots=True)
class BoxedProgram:
    """A program that a box runs.

    Attributes:
        program: with its tests; None where the answer holds none.
        limits: what it may use.
        spec: its surroundings.
        wall_decides: a program whose wall time is over timed out, even if it only waited for a processor.
    """

    program: Program | None
    limits: Limits = field(default_factory=Limits)
    spec: BoxSpec = field(default_factory=BoxSpec)
    wall_decides: bool = False


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What is asked after the answer to a request: the kind ``reasoned``.

    Attributes:
        question: the user's next message.
        params: sampling parameters, over those of the request.
    """

    question: str
    params: Mapping[str, Any]

    @property
    def identity(self) -> list[Any]:
        """Its part of keys."""
        return [self.question, dict(self.params)]


@dataclass(slots=True)
class Request:
    """One call of a model or a box, with all parameters merged. `dataclasses.replace` makes another; none is changed.

    It is not frozen, because a frozen class takes five times as long to make, and there is one for every ask.

    Attributes:
        kind: of `KINDS`, or of an episode (`gage_eval.engine.episodes`).
        messages: in OpenAI form; text-only content is a plain string, media is ``media://`` until sent.
        prompt: text to complete, to embed, or before the choices.
        params: sampling parameters by canonical name (max_new_tokens, temperature, top_p, stop, seed, …); a
            backend passes keys it does not know through.
        tools: tool definitions in OpenAI form.
        tool_choice: ``auto``, ``none``, ``required`` or a named choice.
        sample_id: the sample's id.
        row_index: the sample's row in the dataset.
        replicate: index of the sample's repetition (epoch), from 0.
        draw: which draw of the model's answers this asks for, from 0; equal requests of one draw get one answer.
        tool_set: what answers the model's tool calls, for the kind ``tools``.
        tool_rounds: how many rounds of tool calls are answered.
        limits: what else ends the rounds.
        lookup: value of the sample field by which a replay finds its answer; None where the backend needs none.
        choices: continuations of the prompt whose likelihood is asked for, delimiter included.
        unconditioned: the text whose likelihood is compared with the one after the prompt; None where it is not used.
        embed: send media as data, also to a backend that could read files.
        unasked: why it cannot be sent; its row is then an error.
        program: what a box runs.
        follow_up: what is asked after the answer, for the kind ``reasoned``.
        agent: the program that asks, for the kind ``agent``.
        user: who talks with the model, for the kind ``tools``.
    """

    kind: str
    messages: list[dict[str, Any]] | None = None
    prompt: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    tools: list[Any] | None = None
    tool_choice: Any = None
    sample_id: str = ""
    row_index: int = 0
    replicate: int = 0
    draw: int = 0
    lookup: str | None = None
    tool_set: Tools | None = None
    tool_rounds: int = 0
    limits: EpisodeLimits | None = None
    choices: list[str] | None = None
    unconditioned: str | None = None
    embed: bool = False
    unasked: RenderFailure | None = None
    program: BoxedProgram | None = None
    follow_up: FollowUp | None = None
    agent: Agent | None = None
    user: "SimulatedUser | None" = None


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """A simulated user of one episode.

    Attributes:
        request: what its model is asked, before anything was said: instructions, parameters and tools.
        stop: the word by which it ends the conversation.
        max_turns: how often it may speak.
        script: its turns, each with ``content``, and perhaps ``tool_calls`` and ``tool_names`` (tools that the model
            is offered from then on); None where a model speaks.
        identity: its part of keys: all of that, and its model.
    """

    request: Request
    stop: str
    max_turns: int
    script: Sequence[Mapping[str, Any]] | None
    identity: Any


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request.

    Attributes:
        needs: the field of a request that says what is asked. A request without it asks nothing.
        may_be_blank: whether a blank text in this field is asked too.
        returns: the field of the response that holds the result.
        operation: its name in the conventions of OpenTelemetry.
    """

    needs: str
    may_be_blank: bool
    returns: str
    operation: str


KINDS: Mapping[str, Kind] = {
    "chat": Kind("messages", may_be_blank=False, returns="answer", operation="chat"),
    "completion": Kind("prompt", may_be_blank=False, returns="answer", operation="text_completion"),
    # The context is `prompt`, or `messages` through the model's chat template where that is None.
    "likelihood": Kind("choices", may_be_blank=True, returns="logprobs", operation="text_completion"),
    # A text is in `prompt`, a medium in `messages`. The answer is the vector as JSON text.
    "embed": Kind("prompt", may_be_blank=True, returns="answer", operation="embeddings"),
    # The answer is the `box.types.Execution` as JSON text.
    "run": Kind("program", may_be_blank=True, returns="answer", operation="execute_tool"),
}
"""The kinds of requests by name. A backend serves those among its capabilities."""


def called_function(call: Any) -> dict[str, Any] | None:
    """The function that a tool call of an endpoint names; None where it names none."""
    function = call.get("function") if isinstance(call, dict) else None
    return function if isinstance(function, dict) and isinstance(function.get("name"), str) else None


@dataclass(slots=True)
class Response:
    """The result of one call, retries included. New fields go at the end: the log stores values by position.

    Attributes:
        status: `statuses.ResponseStatus`.
        answer: the model's text; None when there is none.
        reasoning: the thinking text that the endpoint returns separately from the answer.
        tool_calls: JSON text of the calls the model asks for.
        finish_reason: as the endpoint gives it.
        logprobs: JSON text of the endpoint's log probabilities; of a likelihood request
            ``{"choices": [{"ll", "is_greedy", "tokens", "truncated"}, …], "unconditioned": [like choices]}``.
        prompt_tokens: tokens of the prompt, as counted by the endpoint.
        completion_tokens: tokens of the answer, as counted by the endpoint.
        error_kind: why the status is error, skipped or limit, one word (``http_400``, ``timeout``, ``rounds``, …).
        latency_ms: wall time of the attempt that gave the answer.
        ttft_ms: time to the first token, where the backend streams.
        attempts: requests sent; 0 when none was needed.
        errors: one line for each failed attempt.
        model_fingerprint: the model as the endpoint names it.
        tool_outputs: of a turn of an episode: what the tools answered that it called, in the order of the calls.
        tool_statuses: of each of these, ``ok`` or ``error``.
        tool_ms: how long each took.
        call_key: of a turn of an episode: its response key.
        artifacts: of an episode: its final state, as `gage_eval.engine.final_state.final_state` writes it.
        source: of a turn of an episode: see `gage_eval.engine.episodes.Outcome`. Not in the log.
        tool_sources: of each tool output, ``run`` or ``journal``. Not in the log.
        actor: of a turn of an episode: ``user`` for one of its simulated user.
        prompt_digest: of the prompt's token ids, where the engine tells them.
        tokens: the answer's tokens with their runners-up, as rows of `tables.TOKEN`; None where they are not asked for.
        diverged: of an episode: the messages of each earlier attempt that differed from the journal, as JSON text.
    """

    status: str
    answer: str | None = None
    reasoning: str | None = None
    tool_calls: str | None = None
    finish_reason: str | None = None
    logprobs: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error_kind: str | None = None
    latency_ms: float | None = None
    ttft_ms: float | None = None
    attempts: int = 0
    errors: list[str] = field(default_factory=list)
    model_fingerprint: str | None = None
    tool_outputs: list[str] | None = None
    tool_statuses: list[str] | None = None
    tool_ms: list[float] | None = None
    call_key: str | None = None
    artifacts: str | None = None
    source: str | None = None
    tool_sources: list[str] | None = None
    actor: str | None = None
    prompt_digest: str | None = None
    tokens: list[dict[str, Any]] | None = None
    diverged: list[str] | None = None

    def to_bytes(self) -> bytes:
        """The payload of a log record: the fields' values in order, as a JSON array."""
        return orjson.dumps(
            [
                self.status, self.answer, self.reasoning, self.tool_calls, self.finish_reason, self.logprobs,
                self.prompt_tokens, self.completion_tokens, self.error_kind, self.latency_ms, self.ttft_ms,
                self.attempts, self.errors, self.model_fingerprint, self.tool_outputs,
                self.tool_statuses, self.tool_ms, self.call_key, self.artifacts,
                *(
                    (None, None, self.actor, self.prompt_digest, self.tokens, self.diverged)
                    if self.actor or self.prompt_digest or self.tokens or self.diverged
                    else ()
                ),
            ]
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, payload: bytes) -> "Response":
        """The response of a log record; a shorter record of an older version gets defaults.

        Raises:
            ValueError: the payload is not a response.
        """
        values = orjson.loads(payload)
        if not isinstance(values, list) or not 1 <= len(values) <= len(cls.__slots__):
            raise ValueError("the log record holds no response")
        return cls(*values)


class RequestRefused(EndpointFailed):
    """The endpoint refused a request for a reason that usually affects every request: the key, the model, a redirect.

    Where other requests succeed it affects this one alone, for example when a firewall or a moderation filter answers.

    Attributes:
        response: the row's response in that case, with status ``error``.
    """

    def __init__(self, message: str, response: Response) -> None:
        super().__init__(message)
        self.response = response


def without_surrogates(value: Any) -> Any:
    """A JSON value with each lone surrogate replaced by U+FFFD; logs and tables cannot hold surrogates."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def token_count(value: Any) -> int | None:
    """A plausible count of tokens; None for anything else."""
    return value if type(value) is int and 0 <= value < 2**53 else None
