"""What an endpoint does with pinned requests: recorded once of a model that is trusted, and again for each check."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from typing import Any, Literal, TypeAlias

from pydantic import AwareDatetime, Field

from gage_eval.base.canonical import canonical_text, decode
from gage_eval.base.statuses import ANSWERED
from gage_eval.base.strict_model import StrictModel
from gage_eval.engine.outside import ask_together
from gage_eval.engine.probe import PROMPTS, QUESTIONS, REFUSALS, ProbeVerdict, Verdict, asked_kind
from gage_eval.models.backends.base import Backend
from gage_eval.models.client.token_steps import Step, steps_in
from gage_eval.models.client.types import Request, Response
from gage_eval.scoring.metrics.builtin.structured import json_schema

StopStrings: TypeAlias = Literal["kept", "ignored", "not_known"]
Thinking: TypeAlias = Literal["absent", "apart", "in_answer", "not_known"]

MOST_PROMPTS = 1000
USUAL_PROMPTS = 500
# Tokens of each answer whose distributions are compared, and how many of the likeliest ones are asked for: endpoints
# have different limits.
_TOKENS, _TOP = 8, (20, 5)
# A model that thinks needs room for it.
_BUDGET = 1024
_THINKING_MARKS = ("<think", "</think", "<thinking", "[THINK]", "[/THINK]", "<|channel|>", "<seed:think", "◁think▷")

_THINGS = ("bicycles", "rain", "libraries", "salt", "clocks", "apples", "maps", "thunder", "windmills", "paper",
           "trains", "honey", "chess", "mountains", "candles", "numbers")  # fmt: skip
_TEMPLATED: tuple[list[dict[str, Any]], ...] = (
    [{"role": "user", "content": "What is rain?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " What is  rain?\n"}],
    [
        {"role": "user", "content": "What is rain?"},
        {"role": "assistant", "content": "Water that falls."},
        {"role": "user", "content": "And snow?"},
    ],
)
_GUEST = {
    "type": "object", "properties": {"name": {"type": "string"}, "vegetarian": {"type": "boolean"}},
    "required": ["name", "vegetarian"], "additionalProperties": False,
}  # fmt: skip
_SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "city": {"type": "string", "minLength": 1},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "book_table": {
        "restaurant": {"type": "string"},
        "guests": {"type": "array", "minItems": 1, "items": _GUEST},
    },
}
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name.replace('_', ' ').capitalize()}.",
            "parameters": {
                "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
            },
        },
    }
    for name, properties in _SCHEMAS.items()
]  # fmt: skip
_TOOL_QUESTIONS = (
    "What will the weather be like in Oslo in the next three days, in celsius?",
    "Give me the forecast for Cairo for one day, in fahrenheit.",
    "I need the weather of Lima for a week, in celsius.",
    "How warm will it be in Kyoto over the next two days? In celsius, please.",
    "Book a table at Luigi's for Ann, who is a vegetarian, and Bob, who is not.",
    "Reserve a table at Sakura for Chen. Chen eats meat.",
    "Please book a table at The Mill for three vegetarians: Dora, Emil and Fay.",
    "Book Casa Verde for Gus, a vegetarian.",
)
_PARAMETERS: tuple[tuple[str, float], ...] = (
    ("temperature", 0.3), ("temperature", 1.0), ("top_p", 0.5), ("presence_penalty", 1.0), ("frequency_penalty", 1.0),
)  # fmt: skip
_FILLER = "The river runs past the old mill and the mill stands still. "
_CODE = "4172"


class TemplateSeen(StrictModel):
    """A pinned conversation as the endpoint reads it.

    Attributes:
        digest: of its prompt's token ids; None where the endpoint does not tell them.
        tokens: how many it counts; None where it has not answered.
        refused: whether it refuses the conversation.
    """

    digest: str | None
    tokens: int | None
    refused: bool


class ToolsSeen(StrictModel):
    """Calls of two pinned tools.

    Attributes:
        questions: how many were asked, each of which needs a call.
        called: answers that call a tool.
        invalid: what is wrong with each of those that call no such tool, or whose arguments do not fit its schema.
    """

    questions: int
    called: int
    invalid: tuple[str, ...]


class ContextSeen(StrictModel):
    """A prompt that fills the context.

    Attributes:
        size: tokens of prompt and answer together, as declared.
        sent: tokens of the prompt, by what shorter prompts count.
        read: tokens of the prompt, as counted by the endpoint; None where it has not answered.
        recalled: whether the answer repeats the code at the beginning of the prompt.
        refused: whether it refuses the prompt.
        problem: why there is no answer.
    """

    size: int = Field(ge=256)
    sent: int
    read: int | None
    recalled: bool
    refused: bool
    problem: str | None


class AnswerSeen(StrictModel):
    """The first tokens of an answer at temperature 0.

    Attributes:
        tokens: their texts.
        known: of each, the log-probabilities of the likeliest tokens in its place.
    """

    tokens: tuple[str, ...]
    known: tuple[dict[str, float], ...]


class EndpointRecord(StrictModel):
    """What an endpoint does with the pinned requests.

    Attributes:
        form: of this record and of the requests; increase it when one of these changes.
        model: its name.
        created: when it was asked.
        fingerprints: what it called the model.
        determinism: the probe's verdict.
        determinism_text: the same in a sentence.
        templates: a plain conversation, one with a system message, one of several turns, and one with tools.
        stop_strings: whether an answer ends before a stop string.
        thinking: whether the thinking is apart from the answer, or there is none.
        takes_tools: None where that is not known.
        tools: None where it has answered no question with them.
        refused: by parameter with its value, whether the endpoint refuses it; None where that is not known.
        context: None where no size was given.
        answers: to the pinned prompts, without log-probabilities where the endpoint gives none.
        tokens_per_s: of all answers to these prompts together.
        concurrency: requests at once while that was measured.
    """

    form: Literal[1] = 1
    model: str
    created: AwareDatetime
    fingerprints: tuple[str, ...]
    determinism: ProbeVerdict
    determinism_text: str
    templates: tuple[TemplateSeen, ...]
    stop_strings: StopStrings
    thinking: Thinking
    takes_tools: bool | None
    tools: ToolsSeen | None
    refused: dict[str, bool | None]
    context: ContextSeen | None
    answers: tuple[AnswerSeen, ...] = Field(min_length=1, max_length=MOST_PROMPTS)
    tokens_per_s: float | None = Field(allow_inf_nan=False)
    concurrency: int


def check_prompts(count: int) -> list[str]:
    """The first of the pinned prompts, all different: those of the probe, then the same questions on other topics."""
    more = (question.format(*pair) for pair in permutations(_THINGS, 2) for question in QUESTIONS)
    return list(dict.fromkeys((*PROMPTS, *more)))[:count]


async def record_endpoint(
    backend: Backend, name: str, verdict: Verdict, *, prompts: int = USUAL_PROMPTS, context: int | None = None
) -> EndpointRecord:
    """Ask an endpoint the pinned requests.

    A request that fails leaves its property unknown. That the endpoint answers at all was shown by the probe.

    Args:
        backend: an open backend.
        name: of the model.
        verdict: of the probe on it.
        prompts: for how many prompts distributions are recorded.
        context: tokens that prompt and answer may have together; None to leave that out.

    Raises:
        EndpointFailed: the endpoint is gone.
    """
    asker = await _Asker.to(backend)
    thinking = await _thinking(asker)
    answers, tokens_per_s, concurrency = await _first_tokens(asker, prompts)
    takes_tools, tools = await _tools(asker)
    return EndpointRecord(
        model=name,
        created=datetime.now(UTC),
        fingerprints=verdict.fingerprints,
        determinism=verdict.verdict,
        determinism_text=verdict.text,
        templates=await _templates(asker),
        stop_strings=await _stop_strings(asker),
        thinking=thinking,
        takes_tools=takes_tools,
        tools=tools,
        refused=await _refused(asker),
        context=None if context is None else await _context(asker, context, thinks=thinking != "absent"),
        answers=answers,
        tokens_per_s=tokens_per_s,
        concurrency=concurrency,
    )


async def first_tokens(backend: Backend, count: int) -> tuple[tuple[AnswerSeen, ...], float | None, int]:
    """The first tokens of the answers to pinned prompts, tokens per second, and requests at once.

    Args:
        backend: an open backend.
        count: of the prompts.
    """
    return await _first_tokens(await _Asker.to(backend), count)


class _Asker:
    """Asks a backend; what it refuses is a response of status error."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.is_chat = asked_kind(backend) == "chat"
        self._params: Mapping[str, Any] = {}

    @classmethod
    async def to(cls, backend: Backend) -> "_Asker":
        """For an endpoint that has one temperature only, requests have none."""
        asker = cls(backend)
        _, asker._params = await asker.ask_with([asker.request("Say hello.", 1)], {"temperature": 0}, {})
        return asker

    def request(self, content: str | list[dict[str, Any]], tokens: int, **params: Any) -> Request:
        """A request with a text, or with messages."""
        params = {**self._params, "max_new_tokens": tokens, **params}
        if not self.is_chat:
            return Request("completion", prompt=str(content), params=params, sample_id="check")
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
        return Request("chat", messages=messages, params=params, sample_id="check")

    async def answer(self, text: str, tokens: int, **params: Any) -> Response:
        """The answer to a text."""
        return (await self.ask([self.request(text, tokens, **params)]))[0]

    async def ask(self, requests: Sequence[Request]) -> list[Response]:
        """The answers to requests that are sent together."""
        return await ask_together(self.backend, requests)

    async def ask_with(
        self, requests: Sequence[Request], *choices: Mapping[str, Any]
    ) -> tuple[list[Response], Mapping[str, Any]]:
        """The answers with the first of some parameters that the endpoint takes, and these parameters."""
        for extra in choices:
            changed = [replace(request, params={**request.params, **extra}) for request in requests]
            first = await self.ask(changed[:1])
            if first[0].error_kind not in (*REFUSALS, "unsupported"):
                break
        return [*first, *await self.ask(changed[1:])], extra


async def _templates(asker: _Asker) -> tuple[TemplateSeen, ...]:
    """Empty where there is no chat."""
    if not asker.is_chat:
        return ()
    requests = [asker.request(messages, 1) for messages in _TEMPLATED]
    if "tools" in asker.backend.capabilities:
        requests.append(replace(requests[0], tools=_TOOLS))
    # vLLM's server tells token ids where it is asked to; its backends tell them anyway.
    sends = getattr(getattr(asker.backend, "config", None), "SENDS_UNDECLARED", False)
    choices = [{"return_token_ids": True}, {}] if sends else [{}]
    responses, _ = await asker.ask_with(requests, *choices)
    return tuple(
        TemplateSeen(digest=x.prompt_digest, tokens=x.prompt_tokens, refused=x.error_kind in REFUSALS)
        for x in responses
    )


async def _stop_strings(asker: _Asker) -> StopStrings:
    """Ask for words, then again with one of those that came as the stop string."""
    text = "Count from one to ten in words, with a comma after each word."
    said = (await asker.answer(text, _BUDGET)).answer or ""
    if len(words := said.split()) < 4:
        return "not_known"
    stop = words[len(words) // 2]
    response = await asker.answer(text, _BUDGET, stop=[stop])
    if response.status not in ANSWERED or response.answer is None:
        return "not_known"
    if stop in response.answer:
        return "ignored"
    return "kept" if response.answer.strip() == said[: said.find(stop)].strip() else "not_known"


async def _thinking(asker: _Asker) -> Thinking:
    response = await asker.answer("What is 2 + 3? Answer with the number alone.", _BUDGET)
    if response.status not in ANSWERED:
        return "not_known"
    if any(mark in (response.answer or "") for mark in _THINKING_MARKS):
        return "in_answer"
    if response.reasoning:
        return "apart"
    return "absent" if response.status == "ok" else "not_known"


async def _tools(asker: _Asker) -> tuple[bool | None, ToolsSeen | None]:
    if "tools" not in asker.backend.capabilities:
        return False, None
    requests = [replace(asker.request(text, _BUDGET), tools=_TOOLS, tool_choice="auto") for text in _TOOL_QUESTIONS]
    responses = await asker.ask(requests)
    if not any(response.status in ANSWERED for response in responses):
        return False if all(response.error_kind in REFUSALS for response in responses) else None, None
    calls = [decode(response.tool_calls) for response in responses if response.tool_calls]
    wrong = [next(filter(None, map(_wrong_call, made if isinstance(made, list) else [made])), None) for made in calls]
    return True, ToolsSeen(questions=len(requests), called=len(calls), invalid=tuple(filter(None, wrong)))


def _wrong_call(call: Any) -> str | None:
    """What is wrong with a call of a tool; None for a valid one."""
    function = call.get("function") if isinstance(call, Mapping) else None
    name, arguments = map(function.get, ("name", "arguments")) if isinstance(function, Mapping) else (None, None)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in _TOOLS}
    if not isinstance(name, str) or name not in schemas:
        return f"there is no tool {str(name)[:80]!r}"
    text = arguments if isinstance(arguments, str) else canonical_text(arguments)
    score = json_schema(text, schema=schemas[name], extract=False)
    return None if score.status == "scored" and score.value == 1 else f"{name}: {(score.explanation or '')[:200]}"


async def _refused(asker: _Asker) -> dict[str, bool | None]:
    requests = [asker.request("Say hello.", 1, **{name: value}) for name, value in _PARAMETERS]
    responses = await asker.ask(requests)
    return {
        # What failed for another reason says nothing of the parameter.
        f"{name} {value:g}": False if x.status in ANSWERED else True if x.error_kind in REFUSALS else None
        for (name, value), x in zip(_PARAMETERS, responses, strict=True)
    }


async def _context(asker: _Asker, size: int, *, thinks: bool) -> ContextSeen:
    """Send a prompt that leaves just enough of the context for the answer, with a code at its beginning."""
    tokens = min(_BUDGET if thinks else 32, size // 4)

    def text(count: int) -> str:
        return f"The code is {_CODE}. Remember it.\n{_FILLER * count}\nWhat is the code? Answer with the code alone."

    counts = 4, 12
    few, more = [(await asker.answer(text(count), 1)).prompt_tokens for count in counts]
    if few is None or more is None or more <= few:
        problem = "the endpoint does not count the tokens of prompts"
        return ContextSeen(size=size, sent=0, read=None, recalled=False, refused=False, problem=problem)
    each = (more - few) / (counts[1] - counts[0])
    # The endpoint's own counts may be wrong, and a sentence has four tokens at least.
    count = min(counts[0] + int((size - tokens - few) / each), size // 4)
    sent = round(few + (count - counts[0]) * each)
    response = await asker.answer(text(count), tokens)
    answered = response.status in ANSWERED
    return ContextSeen(
        size=size,
        sent=sent,
        read=response.prompt_tokens if answered else None,
        recalled=answered and _CODE in (response.answer or ""),
        refused=response.error_kind in (*REFUSALS, "context_too_long"),
        problem=None if answered else response.error_kind or response.status,
    )


async def _first_tokens(asker: _Asker, count: int) -> tuple[tuple[AnswerSeen, ...], float | None, int]:
    prompts = check_prompts(count)
    requests = [asker.request(text, _TOKENS) for text in prompts]
    choices: list[dict[str, Any]] = [{}]
    if "logprobs" in asker.backend.capabilities:
        choices = [
            {"logprobs": True, "top_logprobs": top} if asker.is_chat else {"logprobs": top} for top in _TOP
        ] + choices
    # The first request opens the connection and finds out the parameters.
    _, params = await asker.ask_with(requests[:1], *choices)
    began = time.monotonic()
    responses = await asker.ask([replace(each, params={**each.params, **params}) for each in requests])
    took = time.monotonic() - began
    made = [each.completion_tokens for each in responses if each.completion_tokens is not None]
    speed = sum(made) / took if made and took > 0 and len(made) == len(responses) else None
    return tuple(map(_answer_seen, responses)), speed, min(asker.backend.limiter.cap, len(prompts))


def _answer_seen(response: Response) -> AnswerSeen:
    steps: list[Step] = []
    with suppress(ValueError):
        steps = steps_in(response.logprobs)
    # The texts of incomplete characters stand for several tokens.
    known = tuple({token: value for token, value in step.known.items() if "\ufffd" not in token} for step in steps)
    return AnswerSeen(tokens=tuple(step.token for step in steps), known=known)
