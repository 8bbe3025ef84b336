"""The simulated user of an episode: a second role that talks with the model under test.

It reads its turns from a script, or a model writes them, which sees the conversation from the other side: what the
model under test says are the messages of its user. A few checks tell faults of the simulator from those of the model.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Protocol

from gage_eval.base.canonical import canonical_text
from gage_eval.base.statuses import UNANSWERED
from gage_eval.engine.tools.python import LONGEST_OUTPUT, shown
from gage_eval.models.client.tools import Observation, ToolFailed, Tools
from gage_eval.models.client.types import Request, Response, SimulatedUser

VERSION = 2
"""Raise it when the same conversation ends in another way."""

GREETING = "Hello! How can I help you?"
"""What the simulator's model hears where nothing was said before its first turn."""

# A user may thank twice; the same text a third time is a loop.
_MOST_EQUAL_TURNS = 3
# A user may quote a name or a sentence of its instructions, or repeat a few words of the other side.
_LEAKED_WORDS = 40
_ECHOED_WORDS = 8
_WORD = re.compile(r"\w+")
# A user whose last turns all take leave is done. Only its word to stop ends the conversation.
_FAREWELLS = 3
_FAREWELL = re.compile(
    r"\b(good[- ]?bye|bye|farewell|take care|have an? \w+ (day|evening|weekend|one))\b", re.IGNORECASE
)
_AS_ASSISTANT = re.compile(
    r"^[^\w\n]*(assistant|agent)[^\S\n]*:|<\|im_start\|>\s*assistant", re.IGNORECASE | re.MULTILINE
)


def speaks_first(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the user has the first turn: the last message before it is not one of a user."""
    return not messages or messages[-1]["role"] != "user"


def heard_first(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What was said before, as the simulator's model sees it."""
    heard = [
        {"role": _OTHER_SIDE[message["role"]], "content": text}
        for message in messages
        if message["role"] in _OTHER_SIDE and (text := _text(message.get("content")))
    ]
    return heard or ([{"role": "user", "content": GREETING}] if speaks_first(messages) else [])


class UserCalls(Protocol):
    """What a simulated user needs of the episode's `Calls`."""

    async def ask_user(self, request: Request) -> Response:
        """The answer of the simulator's model."""

    async def run_tool(self, name: str, arguments: str, tools: Tools | None = None) -> Observation:
        """The output of one of the tools."""


class SimulatorFailed(Exception):
    """The simulated user did what no user does, or could not be asked; the message says what.

    Attributes:
        turns: of the user, up to the failure.
        kind: of the row's error: ``simulator_`` and the fault, or that of a tool that failed.
    """

    def __init__(self, message: str, turns: Sequence[Response], kind: str) -> None:
        super().__init__(message)
        self.turns = turns
        self.kind = kind


@dataclass(frozen=True)
class Spoken:
    """What a user said.

    Attributes:
        turns: its calls of tools, and its text at the end.
        text: what the model hears; None where the conversation is over.
        tool_names: the tools that the model is offered from now on, in addition.
        at_limit: it is over because the user has spoken as often as it may.
    """

    turns: Sequence[Response] = ()
    text: str | None = None
    tool_names: Sequence[str] = ()
    at_limit: bool = False


@dataclass
class Simulator:
    """The simulated user of one attempt.

    Attributes:
        user: who it is.
        calls: of the attempt.
        observing: puts what tools answered into the turn that called them.
        calls_of: the tool calls of an answer, in the form in which they are sent back.
        messages: what was said before.
    """

    user: SimulatedUser
    calls: UserCalls
    observing: Callable[[Response, Sequence[Observation]], Response]
    calls_of: Callable[[Response], list[dict[str, Any]]]
    messages: InitVar[Sequence[Mapping[str, Any]]]
    _said: Counter[str] = field(default_factory=Counter)
    # How many turns in a row took leave, up to the last one.
    _farewells: int = 0

    def __post_init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._heard = heard_first(messages)

    async def turn(self, answer: str | None = None) -> Spoken:
        """The user's next turn.

        Args:
            answer: what the model has just said; None where the user speaks first.

        Raises:
            SimulatorFailed: the simulator is at fault.
        """
        if self._said.total() == self.user.max_turns:
            if self.user.script is None and self._farewells >= _FAREWELLS:
                said = f"the simulated user took leave {self._farewells} times and never said its word to stop"
                raise SimulatorFailed(said, (), "simulator_no_stop")
            return Spoken(at_limit=True)
        if answer is not None:
            self._heard.append({"role": "user", "content": answer})
        turns = await (self._asked() if self.user.script is None else self._scripted(self.user.script))
        if not turns:
            return Spoken()
        text = turns[-1].answer or ""
        added = () if self.user.script is None else self.user.script[self._said.total()].get("tool_names") or ()
        self._said[_normalised(text)] += 1
        self._farewells = self._farewells + 1 if _FAREWELL.search(text) else 0
        self._heard.append({"role": "assistant", "content": text})
        if self.user.script is None and (fault := self._fault(text, answer)) is not None:
            kind, said = fault
            raise SimulatorFailed(f"the simulated user {said}", turns, f"simulator_{kind}")
        return Spoken(turns, None if self.user.stop in text or not text.strip() else text, added)

    async def _scripted(self, script: Sequence[Mapping[str, Any]]) -> list[Response]:
        """The next turn of the script; none at its end."""
        place = self._said.total()
        if place == len(script):
            return []
        entry = script[place]
        said = Response("ok", entry.get("content") or "", actor="user", source="script")
        made = [
            {"function": {**call, "arguments": call.get("arguments", {})}} for call in entry.get("tool_calls") or ()
        ]
        if not made:
            return [said]
        calling = replace(said, answer="", tool_calls=canonical_text(made))
        return [await self._observed(calling, self.calls_of(calling), []), said]

    async def _asked(self) -> list[Response]:
        """What the simulator's model says, after the tools that it calls."""
        request, turns = self.user.request, list[Response]()
        for left in reversed(range(request.tool_rounds + 1)):
            messages = [*(request.messages or []), *self._heard]
            response = await self.calls.ask_user(replace(request, messages=messages))
            said = replace(response, answer=shown(response.answer or ""), actor="user")
            if response.status in UNANSWERED:
                raise SimulatorFailed("the simulated user could not be asked", [*turns, said], "simulator_error")
            called = self.calls_of(response)
            if not called:
                return [*turns, said]
            if not left:
                break
            turns.append(await self._observed(said, called, turns))
        limit = f"in more than {request.tool_rounds:,} rounds" if request.tool_rounds else "and has none"
        at_fault = [*turns, replace(said, tool_calls=None)]
        raise SimulatorFailed(f"the simulated user called tools {limit}", at_fault, "simulator_tools")

    async def _observed(
        self, said: Response, called: Sequence[Mapping[str, Any]], before: Sequence[Response]
    ) -> Response:
        """A turn with what the tools answered that it called; the simulator sees it, too."""
        self._heard.append({"role": "assistant", "content": said.answer or "", "tool_calls": called})
        observed: list[Observation] = []
        for call in called:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            try:
                observed.append(await self.calls.run_tool(name, arguments, self.user.request.tool_set))
            except ToolFailed as error:
                raise SimulatorFailed(str(error), [*before, self.observing(said, observed)], error.kind) from None
            self._heard.append({"role": "tool", "tool_call_id": call["id"], "content": observed[-1].content})
        return self.observing(said, observed)

    def _fault(self, text: str, answer: str | None) -> tuple[str, str] | None:
        """What the simulator did wrong in a turn: its kind, and a sentence. None where nothing is known to be wrong."""
        if not text.strip():
            return "empty", "said nothing"
        if len(text) > LONGEST_OUTPUT:
            return "too_long", f"said more than {LONGEST_OUTPUT:,} characters"
        if _AS_ASSISTANT.search(text):
            return "as_assistant", "spoke as the assistant"
        words = _words(text)
        if answer is not None and len(words) >= _ECHOED_WORDS and words == _words(answer):
            return "echo", "repeated what the assistant had said"
        if self._said[_normalised(text)] >= _MOST_EQUAL_TURNS:
            return "repeats", f"said the same {_MOST_EQUAL_TURNS} times"
        instructions = _runs(
            _words(" ".join(_text(message["content"]) for message in self.user.request.messages or ()))
        )
        return None if instructions.isdisjoint(_runs(words)) else ("leak", "told its instructions")


_OTHER_SIDE = {"user": "assistant", "assistant": "user"}


def _text(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""


def _normalised(text: str) -> str:
    return " ".join(_words(text)) or text.strip()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    """All stretches of words that would be a leak."""
    return {tuple(words[at : at + _LEAKED_WORDS]) for at in range(len(words) - _LEAKED_WORDS + 1)}
