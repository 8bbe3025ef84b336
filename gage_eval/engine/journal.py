"""The journal of an episode: what its tools answered, so that a killed episode goes on where it was.

A killed episode runs again from the top. Its model calls are answered by the log. A call of a tool without effects is
answered by the journal. A call that changes the episode's state is made again, because the state must be there, and
its output must equal the journaled one after the tool's own normalisation; then the model sees the journaled one, so
that its next request is found in the log. If it differs, the attempt has diverged, and the episode begins once more. A
call with effects outside is never made twice, unless its tool allows that.
"""

import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from gage_eval.base.canonical import JsonValue, canonical_text, decode, digest, encode
from gage_eval.base.statuses import DIVERGES_AT
from gage_eval.models.client.tools import EpisodeState, Observation, Tool, ToolError, ToolFailed, Tools
from gage_eval.models.client.types import Request, Response

# Characters of an output that the sentence about a difference shows.
_SHOWN = 120
# Messages of an attempt that are kept where it diverges: the last ones.
_KEPT = 500


class Diverged(Exception):
    """A tool answered something else than before the kill; the message says which, where."""


class Journal(Protocol):
    """Where the outputs of tools are kept."""

    def earlier_record(self, key: str) -> bytes | None:
        """A record of an earlier process of the step."""

    def record(self, key: str) -> bytes | None:
        """A record of any process."""

    def write(self, key: str, record: bytes) -> None:
        """Write a record, which then survives a kill."""


class EpisodeCalls:
    """The `Calls` of one attempt of an episode.

    Args:
        journal: where outputs are kept.
        generate: asks the model, in this attempt.
        key: the episode's key and attempt.
        tools: of the episode.
        state: of this attempt.
        ask_user: asks the model of the simulated user, in this attempt.
        is_program: the agent is a program.

    Attributes:
        state: of this attempt.
        has_acted: whether a tool with effects was called.
    """

    def __init__(
        self,
        journal: Journal,
        generate: Callable[[Request], Coroutine[Any, Any, Response]],
        key: JsonValue,
        tools: Tools | None,
        state: EpisodeState,
        ask_user: Callable[[Request], Coroutine[Any, Any, Response]] | None = None,
        *,
        is_program: bool = False,
    ) -> None:
        self._generate = generate
        self._ask_user = ask_user
        self._journal = journal
        self._tools = tools
        self.state = state
        # Stands for the state: the episode, and all that its tools have done.
        self._past = digest(key)
        self._calls = 0
        # Role, text, and the calls of a model or the name of a tool.
        self._said: deque[tuple[str, str | None, str | None]] = deque(maxlen=_KEPT)
        # A program acts from its start.
        self.has_acted = is_program

    async def generate(self, request: Request) -> Response:
        """See `Calls`."""
        response = await self._generate(request)
        self._said.append(("assistant", response.answer, response.tool_calls))
        return response

    async def ask_user(self, request: Request) -> Response:
        """See `Calls`."""
        assert self._ask_user is not None
        response = await self._ask_user(request)
        self._said.append(("user", response.answer, response.tool_calls))
        return response

    async def run_tool(self, name: str, arguments: str, tools: Tools | None = None) -> Observation:
        """See `Calls`."""
        tools = tools or self._tools
        tool = None if tools is None else tools.get(name)
        self._calls += 1
        if tool is None:
            return Observation(told(f"there is no tool {name!r}"), is_error=True)
        key = tool_key(tool, name, arguments, None if tool.effects == "none" else self._past)
        observed = await self._observed(tool, name, arguments, key)
        self._said.append(("tool", observed.content, name))
        if tool.effects != "none":
            self.has_acted = True
            self._past = digest([key, tool.normalised(observed.content)])
        return observed

    def messages(self) -> str:
        """What was said so far, as JSON text of messages in the form of chat requests."""
        messages: list[JsonValue] = []
        for role, content, more in self._said:
            detail = {} if more is None else {"name": more} if role == "tool" else {"tool_calls": decode(more)}
            messages.append({"role": role, "content": content, **detail})
        return encode(messages).decode()

    async def _observed(self, tool: Tool, name: str, arguments: str, key: str) -> Observation:
        journal = self._journal
        record = journal.earlier_record(key) if tool.effects == "state" else journal.record(key)
        if record is not None and tool.effects != "state":
            return _journaled(record)
        if tool.effects == "outside":
            begun = digest([key, "begun"])
            if journal.record(begun) is not None and not tool.is_repeatable:
                raise ToolFailed(
                    f"tool '{name}' was running when the run was killed, and it is not known whether it took effect; "
                    "declare it repeatable=True if it may be called again"
                )
            journal.write(begun, b"{}")
        began = time.perf_counter()
        try:
            is_error, content = False, await tool.run(arguments, self.state)
        except ToolError as error:
            is_error, content = True, told(str(error))
        if record is None:
            ms = round((time.perf_counter() - began) * 1000, 3)
            journal.write(key, encode({"content": content, "is_error": is_error, "ms": ms}))
            return Observation(content, is_error, ms)
        journaled = _journaled(record)
        texts = tool.normalised(content), tool.normalised(journaled.content)
        if texts[0] != texts[1]:
            raise Diverged(f"{DIVERGES_AT}{self._calls}, of tool '{name}': {_difference(*texts)}")
        return journaled


def _difference(now: str, before: str) -> str:
    """Both texts from shortly before the first character that differs."""
    pairs = enumerate(zip(now, before, strict=False))
    equal = next((place for place, (a, b) in pairs if a != b), min(len(now), len(before)))
    start = max(equal - _SHOWN // 4, 0)
    shown = [f"'{'…' if start else ''}{text[start : start + _SHOWN]}'" for text in (now, before)]
    return f"{shown[0]} now, {shown[1]} before the run was killed"


def told(sentence: str) -> str:
    """An error as the output that the model gets."""
    return canonical_text({"error": sentence})


def tool_key(tool: Tool, name: str, arguments: str, past: str | None) -> str:
    """Key of a tool's output: 64 hex digits.

    Args:
        tool, name, arguments: the call; arguments that are equal as JSON have equal keys.
        past: what stands for the state before the call; None for a tool without effects.
    """
    try:
        read: JsonValue = decode(arguments)
    except ValueError:
        read = {"text": arguments}
    return digest(["tool", tool.identity, name, read, past])


def _journaled(record: bytes) -> Observation:
    stored: Mapping[str, Any] = decode(record)
    return Observation(str(stored["content"]), bool(stored.get("is_error")), float(stored.get("ms", 0)), "journal")


def content_of(record: bytes, name: str = "content") -> str:
    """A text of a record."""
    stored: Mapping[str, Any] = decode(record)
    return str(stored[name])
