"""Simulated users: calls of their own that are logged like the model's, and faults that are not the model's."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from engine.asking import Prompts, Scripted, echo, generate, step_of
from engine.test_tools import Counted, Killed, calling

from gage_eval.base.canonical import digest
from gage_eval.engine.job import UserModel
from gage_eval.engine.runtime import Runtime
from gage_eval.models.client.episode_limits import EpisodeLimits, Price
from gage_eval.models.client.types import Request, Response, SimulatedUser
from gage_eval.store import Store

INSTRUCTIONS = " ".join(f"word{number}" for number in range(60))
STOP = "###STOP###"


@dataclass
class Talking(Prompts):
    """Rows whose model talks with a user."""

    user: SimulatedUser
    changes: dict[str, Any]

    def __init__(self, *prompts: str, user: SimulatedUser, **changes: Any) -> None:
        super().__init__(prompts, kind="tools")
        self.user, self.changes = user, changes

    def request(self, part: int, ask: int) -> Request:
        return replace(super().request(part, ask), user=self.user, **self.changes)


def user(script: list[Any] | None = None, max_turns: int = 5, **request: Any) -> SimulatedUser:
    messages = [{"role": "system", "content": INSTRUCTIONS}]
    return SimulatedUser(Request("chat", messages=messages, **request), STOP, max_turns, script, "me")


def says(*texts: str | Response) -> Scripted:
    """A simulator that says one text after another, by what it has said before."""

    async def answer(request: Request) -> Response:
        # What the sample's user said comes first.
        said = sum(message["role"] == "assistant" for message in (request.messages or [])[2:])
        text = texts[min(said, len(texts) - 1)]
        return replace(text) if isinstance(text, Response) else Response("ok", answer=text)

    return Scripted(answer)


def model(backend: Scripted, price: Price | None = None) -> UserModel:
    return UserModel(backend, digest("a user"), price=price or Price())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store"))


def test_a_user_hears_the_model_from_the_other_side_until_it_stops(store: Store) -> None:
    talker, tested = says("and then?", f"thanks {STOP}"), Scripted(echo)
    done = generate(store, Talking("hi", user=user()), tested, user=model(talker, Price(0.0, 1e6)))
    assert [[message["role"] for message in request.messages or []] for request in talker.asked] == [
        ["system", "assistant", "user"],
        ["system", "assistant", "user", "assistant", "user"],
    ]
    (turns,) = done.column("turns")
    assert [(turn["actor"], turn["answer"]) for turn in turns] == [
        (None, "re: hi"),
        ("user", "and then?"),
        (None, "re: and then?"),
        ("user", f"thanks {STOP}"),
    ]
    assert done.column("answer") == ["re: and then?"], "the answer is the model's last"
    assert "###" not in str(tested.asked[-1].messages)
    assert len({turn["call_key"] for turn in turns}) == 4


def test_a_user_speaks_first_where_the_last_message_is_no_users(store: Store) -> None:
    talker, tested = says("buy tea", STOP), Scripted(echo)
    greeted = [{"role": "system", "content": "policy"}, {"role": "assistant", "content": "Good day"}]
    for messages, heard in ((greeted, "Good day"), (greeted[:1], "Hello! How can I help you?")):
        done = generate(
            store, Talking("", user=user(), messages=messages), tested, digest(heard), user=model(talker), reuse=False
        )
        assert done.column("answer") == ["re: buy tea"]
        assert talker.asked[-2].messages is not None
        assert talker.asked[-2].messages[1:] == [{"role": "user", "content": heard}]
    assert "policy" not in str(talker.asked[0].messages)


ECHO = "one two three four five six seven eight"
CALL = '[{"function": {"name": "x", "arguments": "{}"}}]'
FAULTS: dict[str, tuple[str, list[str | Response]]] = {
    "said nothing": ("empty", [" \n"]),
    "said more than": ("too_long", ["a" * 3_000_000]),
    "spoke as the assistant": ("as_assistant", ["Well.\nAssistant: I have done it."]),
    "the same 3 times": ("repeats", ["Please?"]),
    "what the assistant had said": ("echo", [f"re: {ECHO}"]),
    "told its instructions": ("leak", [f"I was told: {INSTRUCTIONS}"]),
    "called tools and has none": ("tools", [Response("ok", "", tool_calls=CALL)]),
    "took leave 3 times": ("no_stop", ["tea?", "and?", "Thanks, bye!", "Have a nice day.", "You too. Goodbye"]),
    "could not be asked": ("error", [Response("error", error_kind="timeout", errors=["no answer in 3 s"])]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_simulator_is_an_error_whose_kind_says_which(store: Store, fault: str) -> None:
    kind, texts = FAULTS[fault]
    done = generate(store, Talking(ECHO, user=user()), Scripted(echo), user=model(says(*texts)))
    assert (done.column("status"), done.column("error_kind")) == (["error"], [f"simulator_{kind}"])
    (errors,) = done.telemetry.table(columns=["errors"])["errors"].to_pylist()
    assert fault in errors[-1]
    (turns,) = done.column("turns")
    assert "user" in [turn["actor"] for turn in turns]
    assert sum(len(turn["answer"] or "") for turn in turns) < 100_000, "what is too long is cut"


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script> please", "My agent: none. " + STOP, "Thanks.", " ".join(INSTRUCTIONS.split()[:20])],
)
def test_what_a_user_may_say_is_no_fault(store: Store, text: str) -> None:
    done = generate(store, Talking("hi", user=user()), Scripted(echo), user=model(says(text, f"Bye {STOP}")))
    assert done.column("status") == ["ok"]


@pytest.mark.parametrize("last", ["more", "By the way, have a look"])
def test_a_user_that_still_wants_something_at_its_limit_is_at_no_fault(store: Store, last: str) -> None:
    talker = says("Goodbye", *(f"{last} {number}" for number in range(9)))
    done = generate(store, Talking("hi", user=user(max_turns=3)), Scripted(echo), user=model(talker))
    assert (done.column("status"), done.column("error_kind")) == (["limit"], ["turns"])
    assert len(talker.asked) == 3


def test_a_script_is_said_turn_by_turn_without_a_model(store: Store) -> None:
    tools = Counted("state")
    call = {"name": "look_up", "arguments": {"what": "tea"}}
    script = [{"content": "tea?", "tool_calls": [call]}, {"content": "soap?"}]
    talk = Talking("hi", user=user(script, tool_set=tools), tool_set=tools)
    done = generate(store, talk, Scripted(echo))
    (turns,) = done.column("turns")
    assert [(turn["actor"], turn["answer"], turn["tool_outputs"]) for turn in turns] == [
        (None, "re: hi", None),
        ("user", "", ['found {"what": "tea"} as 1']),
        ("user", "tea?", None),
        (None, "re: tea?", None),
        ("user", "soap?", None),
        (None, "re: soap?", None),
    ]


def test_tools_that_a_turn_of_a_script_adds_are_offered_from_then_on(store: Store) -> None:
    tools = Counted()
    script = [{"content": "b", "tool_names": ["look_up", "own"]}, {"content": "c"}]
    talk = Talking("a", user=user(script), tool_set=tools, tools=list(tools.defined(["own"])))
    backend = Scripted(echo)
    generate(store, talk, backend)
    offered = [[tool["function"]["name"] for tool in request.tools or []] for request in backend.asked]
    assert offered == [["own"], ["own", "look_up"], ["own", "look_up"]]


def test_rounds_are_limited_in_each_turn_of_the_user(store: Store) -> None:
    async def answer(request: Request) -> Response:
        roles = [message["role"] for message in request.messages or []]
        is_first, rounds = roles.count("user") == 1, roles[::-1].index("user") // 2
        calls = json.dumps([{"function": {"name": "look_up", "arguments": f"{rounds}"}}])
        return (
            Response("ok", answer="done") if is_first and rounds == 2 else Response("ok", answer="", tool_calls=calls)
        )

    backend, tools = Scripted(answer), Counted()
    limits = EpisodeLimits(rounds_per_turn=2)
    talk = Talking("a", user=user([{"content": "b"}]), tool_set=tools, tool_rounds=9, limits=limits)
    done = generate(store, talk, backend)
    assert (done.column("status"), done.column("error_kind")) == (["limit"], ["rounds"])
    assert len(backend.asked) == 3 + 3


def stopping_at(backend: Scripted, calls: list[int], killed_at: int) -> Scripted:
    """A backend that counts all calls, and ends the process at one of them."""
    answer = backend._answer

    async def counted(request: Request) -> Response:
        calls.append(1)
        if len(calls) > killed_at:
            raise Killed
        return await answer(request)

    return Scripted(counted, width=1)


@pytest.mark.parametrize("killed_at", range(10))
def test_a_killed_conversation_asks_neither_side_again(tmp_path: Path, store: Store, killed_at: int) -> None:
    use = json.dumps([{"function": {"name": "look_up", "arguments": "[1]"}}])

    def talker() -> Scripted:
        return says("tell me", Response("ok", "", tool_calls=use), "now?", f"thanks {STOP}")

    def talk() -> Talking:
        tools = Counted("state")
        return Talking("a", user=user(tool_set=tools, tool_rounds=2), tool_set=tools, tool_rounds=9)

    calls: list[int] = []
    killed = [stopping_at(backend, calls, killed_at) for backend in (calling(), talker())]
    with Runtime() as runtime, pytest.raises(Killed):
        runtime.call(step_of(store, talk(), killed[0], user=model(killed[1])).engine.run())
    tested, told = calling(), talker()
    resumed = generate(store, talk(), tested, user=model(told))
    whole = generate(Store.open(str(tmp_path / "whole")), talk(), calling(), user=model(talker()))
    assert resumed.column("status") == ["ok"]
    assert resumed.column("turns") == whole.column("turns")
    (turns,) = whole.column("turns")
    assert killed_at + len(tested.asked) + len(told.asked) == len(turns) == 10
