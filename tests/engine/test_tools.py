"""Tools of an episode: journaled under their own keys, and never run twice once they are in the log."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from engine.asking import KEY, Prompts, Scripted, generate, step_of
from support.logs import read_logs

from gage_eval.base.canonical import decode
from gage_eval.base.errors import EndpointFailed
from gage_eval.engine.episodes import episode_name, tool_key
from gage_eval.engine.runtime import Runtime
from gage_eval.models.client.types import Request, Response, Tool
from gage_eval.pipeline.tool_outputs import RecordedTools
from gage_eval.store import Store

ROUNDS = 3


class Killed(Exception):
    """Stands for the end of the process."""


class Counted:
    """A tool that answers with its arguments, and counts how often it ran; one run may be killed."""

    identity = "counted"

    def __init__(self, killed_at: int | None = None) -> None:
        self.runs: Counter[str] = Counter()
        self._left = killed_at

    def get(self, name: str) -> Tool | None:
        return self._look_up if name == "look_up" else None

    async def _look_up(self, arguments: str) -> str:
        self.runs[arguments] += 1
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Killed
        return f"found {arguments}"


class WithTools(Prompts):
    """Rows whose model calls two tools in each of three rounds."""

    def __init__(self, tools: Counted | RecordedTools | None, *prompts: str) -> None:
        super().__init__(prompts, kind="tools")
        self.tools = tools

    def request(self, part: int, ask: int) -> Request:
        return replace(super().request(part, ask), tool_set=self.tools, tool_rounds=ROUNDS)


def calling(gone_after: int | None = None, names: tuple[str, str] = ("look_up", "look_up")) -> Scripted:
    """A model that calls two tools, until it has the outputs of three rounds. The endpoint may be gone before that."""

    async def answer(request: Request) -> Response:
        messages = request.messages or []
        outputs = [str(message["content"]) for message in messages if message["role"] == "tool"]
        if gone_after is not None and len(backend.asked) > gone_after:
            raise EndpointFailed("gone.")
        if len(outputs) == 2 * ROUNDS:
            return Response("ok", answer=" ".join(outputs))
        calls = [
            {"function": {"name": name, "arguments": json.dumps([messages[0]["content"], len(outputs) + number])}}
            for number, name in enumerate(names)
        ]
        return Response("ok", answer="", tool_calls=json.dumps(calls))

    backend = Scripted(answer, width=1)
    return backend


def logged_outputs(store: Store) -> list[str]:
    """The outputs of tools in the write-ahead log."""
    records = [decode(payload) for _, payload in read_logs(store.scratch(KEY))]
    return [str(record["content"]) for record in records if isinstance(record, dict)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store"))


@pytest.mark.parametrize("gone_after", range(8))
def test_what_was_logged_before_a_kill_is_neither_asked_nor_run_again(store: Store, gone_after: int) -> None:
    tools = Counted()
    first, second = calling(gone_after), calling()
    step = step_of(store, WithTools(tools, "a", "b"), first)
    with Runtime() as runtime, pytest.raises(EndpointFailed):
        runtime.call(step.engine.run())
    before = tools.runs.copy()
    assert before.total() == len(logged_outputs(store)) == gone_after // 4 * 6 + gone_after % 4 * 2
    done = generate(store, WithTools(tools, "a", "b"), second)
    assert tools.runs.total() == len(tools.runs) == 2 * 2 * ROUNDS, "every call of a tool ran once"
    assert gone_after + len(second.asked) == 2 * (ROUNDS + 1)
    assert done.responses.table()["answer"].to_pylist()[0].startswith('found ["a", 0] found ["a", 1]')


@pytest.mark.parametrize("killed_at", range(6))
def test_a_tool_that_was_killed_while_it_ran_is_the_only_one_that_runs_again(store: Store, killed_at: int) -> None:
    killed, tools = Counted(killed_at), Counted()
    with Runtime() as runtime, pytest.raises(Killed):
        runtime.call(step_of(store, WithTools(killed, "a"), calling()).engine.run())
    assert len(logged_outputs(store)) == killed_at
    generate(store, WithTools(tools, "a"), calling())
    again = killed.runs & tools.runs
    assert list(again) == [f'["a", {killed_at}]']
    assert (killed.runs + tools.runs).total() == 2 * ROUNDS + 1


def test_a_call_of_no_tool_gets_an_error_as_its_output(store: Store) -> None:
    tools = Counted()
    done = generate(store, WithTools(tools, "a"), calling(names=("look_up", "look_down")))
    (answer,) = done.responses.table()["answer"].to_pylist()
    assert answer.count("error") == ROUNDS
    assert tools.runs.total() == ROUNDS


def test_recorded_outputs_are_tools_found_by_name_and_arguments(store: Store) -> None:
    recorded = RecordedTools(
        [
            {"name": "look_up", "arguments": None, "content": "any"},
            {"name": "look_up", "arguments": '["a",3]', "content": "third"},
        ]
    )
    done = generate(store, WithTools(recorded, "a"), calling())
    assert done.responses.table()["answer"].to_pylist() == ["any any any third any any"]


def test_other_tools_are_another_episode_and_another_place_is_another_call() -> None:
    request = Request("tools", messages=[], tool_rounds=1)
    first_tools, two = (RecordedTools([{"name": "f", "arguments": None, "content": text}]) for text in "ab")
    assert episode_name(replace(request, tool_set=first_tools)) != episode_name(replace(request, tool_set=two))
    keys = {
        tool_key(*call) for call in [("e", 0, "f", "{}"), ("e", 1, "f", "{}"), ("e", 0, "g", "{}"), ("d", 0, "f", "{}")]
    }
    assert len(keys) == 4
