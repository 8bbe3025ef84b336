"""Messages, media, tool calls and log probabilities as the sample's page shows them. Plain data; escaping is the
templates' work."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Literal

import orjson

from gage_eval.base.canonical import decode
from gage_eval.store.media import MEDIA_URL

PartKind = Literal["text", "image", "audio", "video", "link", "json", "thinking"]

ANSWER = "answer"
"""The role of what the model under test said in an earlier turn of the conversation."""

_MEDIA = re.compile(MEDIA_URL.pattern.decode())
_DATA = re.compile(r"data:(?:image/(?:png|jpeg|gif|webp)|audio/[\w.+-]+);base64,[A-Za-z0-9+/=]+")
_OWN = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
_SAID: tuple[tuple[PartKind, str], ...] = (("thinking", "reasoning"), ("text", "answer"))
_MOST_TOKENS = 6_000
# Probabilities that separate the tones of tokens, the surest first.
_HEAT = (0.9, 0.6, 0.3, 0.1)


@dataclass(frozen=True)
class Part:
    """A part of a message: a text, media by their digest, or something else as JSON.

    Attributes:
        waveform: of a recording in a page without scripts: its shape, as the data URL of a picture.
    """

    kind: PartKind
    text: str
    waveform: str = ""


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asks for."""

    name: str
    arguments: str
    id: str


@dataclass(frozen=True)
class Message:
    """A message of a request, of a sample or of a trajectory.

    Attributes:
        step: of the episode, from 1 as in the view ``steps`` of `gage sql`; 0 for what was asked.
        facts: tokens, seconds, cost of the step, and where it came from.
        failed: the tool told the model of an error.
    """

    role: str
    parts: tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    name: str = ""
    rest: str = ""
    step: int = 0
    facts: tuple[str, ...] = ()
    failed: bool = False

    @classmethod
    def plain(cls, role: str, text: str) -> "Message":
        """A message with nothing but a text."""
        return cls(role, (Part("text", text),))

    @property
    def text(self) -> str:
        """The message as one text, with a marker such as ``[image]`` for each medium."""
        media = ("image", "audio", "video")
        text = "\n".join(f"[{part.kind}]" if part.kind in media else part.text for part in self.parts)
        # The call of a tool's message is the one that it answers.
        if text or self.role == "tool":
            return text
        return "\n".join(f"{call.name}({call.arguments})" for call in self.calls)

    @property
    def called(self) -> str:
        """The tools that it calls, each with how often."""
        counts = Counter(call.name or "a tool" for call in self.calls)
        return ", ".join(name if count == 1 else f"{name} ×{count:,}" for name, count in counts.items())


@dataclass(frozen=True)
class Token:
    """A token with its probability; ``heat`` is 0 for a sure one, 4 for the most surprising."""

    text: str
    heat: int
    tip: str


@dataclass(frozen=True)
class Candidate:
    """A continuation that log-likelihoods compare."""

    text: str
    ll: str
    greedy: bool
    best: bool


def request_messages(body: Mapping[str, Any]) -> list[Message]:
    """The messages of a request's body; a prompt without messages is one message."""
    if isinstance(messages := body.get("messages"), list):
        return shown_messages(messages)
    media = [
        shown_part({"type": kind, "url": url})
        for name, kind in (("image", "image_url"), ("file", "audio_url"))
        if isinstance(urls := body.get(name), list)
        for url in urls
    ]
    prompt = body.get("prompt", body.get("input"))
    if isinstance(prompt, str) or media:
        choices = [Message.plain("choice", str(choice)) for choice in body.get("choices") or ()]
        texts = [Part("text", prompt)] if isinstance(prompt, str) else []
        return [Message("prompt", (*media, *texts)), *choices]
    return [Message("request", (Part("json", pretty(body)),))]


def shown_messages(messages: Iterable[Any]) -> list[Message]:
    """Messages in the form of chat requests."""
    return [_message(message) for message in messages if isinstance(message, Mapping)]


def _message(message: Mapping[str, Any]) -> Message:
    content = message.get("content")
    items = content if isinstance(content, list) else [] if content is None else [content]
    rest = {name: value for name, value in message.items() if name not in _OWN and value is not None}
    return Message(
        str(message.get("role", "")),
        tuple(shown_part(part) for item in items for part in _frames(item)),
        tuple(tool_calls(message.get("tool_calls"))),
        str(message.get("tool_call_id") or ""),
        str(message.get("name") or ""),
        pretty(rest) if rest else "",
    )


def conversation(
    messages: Sequence[Message], turns: Sequence[Mapping[str, Any]], timed: Sequence[Mapping[str, Any]] = ()
) -> list[Message]:
    """Messages with the answers of all turns but the last one, each after the message that it answers.

    Where the model called tools, what they answered follows the turn that called them; that of the last turn too.

    Args:
        messages: as they were prepared: of several user messages in a row, each was asked by itself.
        turns: the responses of the episode, in order.
        timed: the telemetry of the turns.
    """
    # The last answer of the model is shown by itself; turns of a simulated user may follow it.
    last = _last_of_model(turns)
    steps: list[list[Message]] = []
    step = 1
    for number, turn in enumerate(turns, 1):
        took = timed[number - 1] if number <= len(timed) else {}
        own = [_answered(number, turn, took, step), *_outputs(turn, took, step + 1)]
        step += len(own)
        steps.append(own[1:] if number == last else own)
    places = questions([message.role for message in messages], turns)
    if places is None:
        return [*messages, *(message for own in steps for message in own)]
    after = dict(zip(places, steps, strict=False))
    return [shown for place, message in enumerate(messages) for shown in (message, *after.get(place, ()))]


def questions(roles: Sequence[str], turns: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Where each turn of an episode was asked: the places of the user's messages, each answered by a turn.

    Args:
        roles: of the messages as they were prepared.
        turns: the responses of the episode, in order.

    Returns:
        None where all turns follow the messages: the model called tools, or talked with a simulated user.
    """
    places = [
        place
        for place, (role, following) in enumerate(zip(roles, [*roles[1:], ""], strict=True))
        if role == "user" and following != "assistant"
    ]
    if len(places) < len(turns) or any(turn.get("tool_outputs") or turn.get("actor") for turn in turns):
        return None
    return places


def answer_step(turns: Sequence[Mapping[str, Any]]) -> int:
    """The step of the model's last answer, which tools and a simulated user may follow; 0 without turns."""
    last = _last_of_model(turns)
    return 1 + sum(1 + len(turn.get("tool_outputs") or ()) for turn in turns[: last - 1]) if last else 0


def _last_of_model(turns: Sequence[Mapping[str, Any]]) -> int:
    return max((number for number, turn in enumerate(turns, 1) if turn.get("actor") != "user"), default=0)


def first_difference(turns: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> int | None:
    """The first step in which two episodes differ, from 1; None where they do not.

    The model's text, its calls, and what tools answered count. Its reasoning and the ids of calls do not.
    """
    step = 1
    for turn, other in zip_longest(turns, others):
        if turn is None or other is None or not _says_the_same(turn, other):
            return step
        pairs = list(zip_longest(*(turn_or_other.get("tool_outputs") or () for turn_or_other in (turn, other))))
        for place, (output, other_output) in enumerate(pairs, 1):
            if output != other_output:
                return step + place
        step += 1 + len(pairs)
    return None


def _says_the_same(turn: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if (turn.get("answer") or "") != (other.get("answer") or ""):
        return False
    calls, other_calls = turn.get("tool_calls"), other.get("tool_calls")
    return calls == other_calls or [(call.name, call.arguments) for call in tool_calls(calls)] == [
        (call.name, call.arguments) for call in tool_calls(other_calls)
    ]


def _answered(number: int, turn: Mapping[str, Any], took: Mapping[str, Any], step: int) -> Message:
    parts = tuple(Part(kind, str(turn[name])) for kind, name in _SAID if turn.get(name))
    tokens = [f"{turn[name]:,}" for name in ("prompt_tokens", "completion_tokens") if turn.get(name) is not None]
    facts = [
        *([f"{' + '.join(tokens)} tokens"] if tokens else []),
        *_times(took.get("latency_ms")),
        *([] if took.get("cost") is None else [f"cost {took['cost']:.4g}"]),
        *([str(took["source"])] if took.get("source") not in (None, "sent") else []),
    ]
    calls = tuple(tool_calls(turn.get("tool_calls")))
    role = "user" if turn.get("actor") == "user" else ANSWER
    return Message(role, parts, calls, name=str(number), step=step, facts=tuple(facts))


def _outputs(turn: Mapping[str, Any], took: Mapping[str, Any], step: int) -> list[Message]:
    """What the tools answered that a turn called."""
    columns = (
        tool_calls(turn.get("tool_calls")),
        turn.get("tool_statuses") or (),
        took.get("tool_ms") or (),
        took.get("tool_sources") or (),
    )
    outputs = turn.get("tool_outputs") or ()
    rows = zip_longest(outputs, *columns)
    return [
        Message(
            "tool",
            (Part("text", str(output)),),
            () if call is None else (call,),
            name="" if call is None else call.name,
            step=number,
            facts=(*_times(ms), *(["journal"] if source == "journal" else [])),
            failed=status == "error",
        )
        for number, (output, call, status, ms, source) in enumerate(islice(rows, len(outputs)), step)
    ]


def call_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call; what is not a JSON object is the value of ``arguments``."""
    value = _decoded(text)
    return value if isinstance(value, dict) else {"arguments": value}


def _decoded(text: str) -> Any:
    """What a JSON text says; another text is its own value."""
    with suppress(ValueError):
        return decode(text)
    return text


def _times(ms: float | None) -> list[str]:
    return [] if ms is None else [f"{ms / 1000:.2f} s" if ms >= 100 else f"{ms:.1f} ms"]


def shown_part(item: Any) -> Part:
    """A part of a message's content; media of the store by their address in the viewer."""
    if isinstance(item, str):
        return Part("text", item)
    if not isinstance(item, Mapping):
        return Part("json", pretty(item))
    if isinstance(text := item.get("text"), str):
        return Part("text", text)
    kind = str(item.get("type", ""))
    url = next((text for text in _texts(item) if _MEDIA.fullmatch(text) or _DATA.fullmatch(text)), None)
    if url is None:
        link = next((text for text in _texts(item) if text.startswith(("http://", "https://"))), None)
        return Part("json", pretty(item)) if link is None else Part("link", link)
    media = _MEDIA.fullmatch(url)
    address = url if media is None else f"/media/{media[1]}"
    media_kinds: tuple[PartKind, ...] = ("audio", "video", "image")
    shown: Iterable[PartKind] = (name for name in media_kinds if name in kind or url.startswith(f"data:{name}"))
    return Part(next(iter(shown), "link"), address)


def _frames(item: Any) -> Sequence[Any]:
    """The frames of a video that is sent as images; any other part as it is."""
    video = item.get("video_url") if isinstance(item, Mapping) else None
    frames = video.get("frames") if isinstance(video, Mapping) else None
    return [{"type": "image_url", "url": url} for url in frames] if isinstance(frames, list) and frames else [item]


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)


def tool_calls(value: Any) -> Iterable[ToolCall]:
    """Tool calls as chat completions have them, or as JSON text."""
    if isinstance(value, str) and isinstance(value := _decoded(value), str):
        yield ToolCall("", value, "")
    for call in value if isinstance(value, list) else ():
        if not isinstance(call, Mapping):
            yield ToolCall("", pretty(call), "")
            continue
        function = call.get("function")
        called: Mapping[str, Any] = function if isinstance(function, Mapping) else call
        yield ToolCall(str(called.get("name", "")), _arguments(called.get("arguments")), str(call.get("id") or ""))


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        try:
            return pretty(decode(value))
        except ValueError:
            return value
    return "" if value is None else pretty(value)


def tokens(logprobs: Any) -> list[Token]:
    """The tokens of an answer with their probabilities; empty if the response has none."""
    if not isinstance(logprobs, Mapping):
        return []
    if isinstance(content := logprobs.get("content"), list):
        return [
            _token(str(token.get("token", "")), token.get("logprob"), _alternatives(token.get("top_logprobs")))
            for token in content[:_MOST_TOKENS]
            if isinstance(token, Mapping)
        ]
    texts, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if isinstance(texts, list) and isinstance(values, list):
        pairs = zip(texts[:_MOST_TOKENS], values, strict=False)
        return [_token(str(text), value, "") for text, value in pairs]
    return []


def _token(text: str, logprob: Any, alternatives: str) -> Token:
    if not isinstance(logprob, int | float):
        return Token(text, 0, "no probability")
    probability = _probability(logprob)
    heat = sum(probability < limit for limit in _HEAT)
    return Token(text, heat, f"{probability:.3g}{alternatives}")


def _probability(logprob: float) -> float:
    # A model's answer may hold an integer that no float can be.
    with suppress(OverflowError):
        return math.exp(min(float(logprob), 0.0))
    return float(logprob > 0)


def _alternatives(top: Any) -> str:
    usable = [
        token for token in top or () if isinstance(token, Mapping) and isinstance(token.get("logprob"), int | float)
    ]
    texts = [f"{token.get('token')!s} {_probability(token['logprob']):.3g}" for token in usable[:5]]
    return f" · {', '.join(texts)}" if texts else ""


def candidates(logprobs: Any, texts: Sequence[str]) -> list[Candidate]:
    """The continuations of a likelihood request with their log-likelihoods; empty for other requests."""
    choices = logprobs.get("choices") if isinstance(logprobs, Mapping) else None
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        return []
    values = [_number(choice.get("ll")) for choice in choices]
    best = max((value for value in values if value is not None), default=None)
    return [
        Candidate(
            texts[place] if place < len(texts) else f"candidate {place + 1}",
            "–" if value is None else f"{value:.3f}",
            bool(choice.get("is_greedy")),
            value is not None and value == best,
        )
        for place, (choice, value) in enumerate(zip(choices, values, strict=True))
    ]


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def trimmed(text: str, limit: int) -> str:
    """A text of at most that many characters: the end, where answers stand, keeps more than the beginning.

    >>> trimmed("a" * 500, 100)
    'aaaaaaaaaaaaaaaaaaa […419 characters left out…] aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
    """
    if len(text) <= limit:
        return text
    room = max(limit - len(f" […{len(text):,} characters left out…] "), 0)
    head = room * 3 // 10
    tail = room - head
    left_out = len(text) - head - tail
    return f"{text[:head]} […{left_out:,} characters left out…] {text[len(text) - tail :]}"


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    with suppress(TypeError):
        return orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
    # orjson writes no integers of more than 64 bits and no more than 254 levels. Data may have both.
    for indent in (2, None):
        with suppress(RecursionError):
            return json.dumps(value, default=str, ensure_ascii=False, indent=indent)
    return "(nested too deep to be shown)"
