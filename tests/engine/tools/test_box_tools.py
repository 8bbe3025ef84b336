"""``bash`` and ``python``: one box for each episode, with what a sample brings, and nothing for the next episode."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.boxes import NEEDS_BOX

from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import Executor, Limits
from gage_eval.data.prepare.media import MediaRules
from gage_eval.engine.tools.box import BoxTool
from gage_eval.engine.tools.sets import episode_tools, tools_of
from gage_eval.models.client.episode_limits import EpisodeLimits
from gage_eval.models.client.tools import EpisodeState, ToolError, ToolFailed
from gage_eval.pipeline.boxes import AgentBoxes, Boxes, episode_limits, limited

pytestmark = NEEDS_BOX

LIMITS = Limits(cpu_s=1.0, wall_s=60.0, memory_mb=128, output_kb=1)
SETTINGS = ExecutorSettings("bubblewrap", slots=2)
Act = Callable[..., Awaitable[str]]


def episode(
    script: Callable[[Act], Awaitable[Any]], sample: Mapping[str, Any] | None = None, root: Path | None = None
) -> Any:
    """What a script gets that acts in the box of one episode, after another episode has left a file behind."""
    tools = tools_of(["bash", "python"], AgentBoxes(Boxes(SETTINGS), LIMITS, media=MediaRules(root)))

    async def run(executor: Executor, act_out: Callable[[Act], Awaitable[Any]], of: Mapping[str, Any]) -> Any:
        state = EpisodeState(of, executor=lambda: executor)

        async def act(text: str, tool: str = "bash") -> str:
            used = tools[tool]
            assert isinstance(used, BoxTool)
            return await used.run(json.dumps({used.argument: text}), state)

        async with state.exits:
            return await act_out(act)

    async def both() -> Any:
        executor = await asyncio.to_thread(open_executor, SETTINGS)
        try:
            await run(executor, lambda act: act("echo left > left.txt"), {})
            return await run(executor, script, sample or {})
        finally:
            await executor.close()

    return asyncio.run(both())


def test_files_stay_for_the_episode_and_nothing_is_there_from_another() -> None:
    async def script(act: Act) -> list[str]:
        return [
            await act("ls"),
            await act("echo 1 > a; sleep 100 & cd /; x=1"),
            await act("cat a; pwd; echo [$x]; pgrep sleep"),
            await act("print(open('a').read().strip() * 3)", tool="python"),
        ]

    first, quiet, second, third = episode(script)
    assert (first, quiet, third) == ("[no output]", "[no output]", "111")
    assert second.splitlines()[0] == "1"
    assert "[]" in second
    assert second.endswith("[exit 1]"), "no process is left of the command before"


def test_how_a_command_ends_is_shown_to_the_model() -> None:
    async def script(act: Act) -> list[str]:
        return [
            await act("echo out; echo err >&2; exit 3"),
            await act("while :; do :; done"),
            await act("import sys; sys.exit('bad')", tool="python"),
            await act("yes | head -c 100000; echo x >&2"),
            await act("printf '\\xff'"),
            await act("echo alive"),
        ]

    failed, endless, program, long, odd, last = episode(script)
    assert failed == "out\n[stderr]\nerr\n[exit 3]"
    assert "[ended: it used more than 1 s of processor time]" in endless
    assert program == "[stderr]\nbad\n[exit 1]"
    assert len(long) < 3000
    assert odd == "\ufffd"
    assert last == "alive"


def test_a_model_that_deletes_its_workspace_goes_on_without_it() -> None:
    async def script(act: Act) -> list[str]:
        return [
            await act("echo x > a; rm -rf ./* ./.??* /box /tmp /harness; rmdir $PWD; true"),
            await act("ls; echo alive"),
            await act("print('alive')", tool="python"),
        ]

    _, listed, program = episode(script)
    assert (listed, program) == ("alive", "alive")


def test_a_sample_sets_the_surroundings() -> None:
    sandbox = {"setup": "echo made > there.txt", "env": {"COLOUR": "red"}}
    assert episode(lambda act: act("cat there.txt; echo $COLOUR"), {"sandbox": sandbox}) == "made\nred"


def test_files_of_the_sample_are_in_the_box_and_count_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b")
    sample = {"sandbox": {"files": {"data/in.csv": "table.csv"}}}
    assert episode(lambda act: act("cat data/in.csv"), sample, tmp_path) == "a,b"
    boxes = AgentBoxes(Boxes(SETTINGS), LIMITS, media=MediaRules(tmp_path))
    before = episode_tools(tools_of(["bash"], boxes), sample).identity
    (tmp_path / "table.csv").write_text("c,d")
    assert episode_tools(tools_of(["bash"], boxes), sample).identity != before
    with pytest.raises(ToolFailed, match="leads out"):
        episode(lambda act: act("true"), {"sandbox": {"files": {"../a": "table.csv"}}}, tmp_path)


def test_a_sample_may_lower_the_limits_and_never_raise_them() -> None:
    lower, higher = (
        {"sandbox": {"limits": {"memory_mb": most, "agent_s": most / 2, "tests_s": 7}}} for most in (100, 10**6)
    )
    boxes = AgentBoxes(Boxes(SETTINGS), LIMITS)
    assert boxes.limits_of(lower) == replace(LIMITS, memory_mb=100, wall_s=50)
    assert boxes.limits_of(higher) == replace(LIMITS, wall_s=LIMITS.wall)
    assert boxes.limits_of({}) is LIMITS
    assert limited(LIMITS, lower, "tests_s").wall == 7
    code = "a = bytearray(70_000_000)"
    assert episode(lambda act: act(code, tool="python")) == "[no output]"
    own = episode(lambda act: act(code, tool="python"), {"sandbox": {"limits": {"memory_mb": 40}}})
    assert "emory" in own, own
    assert episode_limits(None, lower) == EpisodeLimits(task_s=50)
    assert episode_limits(EpisodeLimits(tokens=5), higher) == EpisodeLimits(tokens=5, task_s=10**6 / 2)
    assert episode_limits(None, {}) is None


@pytest.mark.parametrize(
    "sandbox",
    [
        {"setup": "exit 2"},
        {"env": {"KEY": "env:HOME"}},
        {"files": {"a": "b"}},
        {"image": "no/such:image"},
        {"limits": [1]},
        {"limits": {"memory_mb": "2G"}},
        {"limits": {"memory_mb": True}},
        {"limits": {"agent_s": 0}},
        {"limits": {"gpus": 1}},
    ],
)
def test_surroundings_that_cannot_be_made_are_not_the_models_fault(sandbox: dict[str, Any]) -> None:
    with pytest.raises(ToolFailed) as failed:
        episode(lambda act: act("true"), {"sandbox": sandbox})
    assert failed.value.kind == "box_error"


@pytest.mark.parametrize(
    "arguments", ["", "{", "[]", '{"command": 1}', '{"command": "a", "b": 1}', '{"command": "\\u0000"}']
)
def test_arguments_that_are_no_command_are_told_to_the_model(arguments: str) -> None:
    (tool,) = tools_of(["bash"], AgentBoxes(Boxes(SETTINGS), LIMITS)).values()
    with pytest.raises(ToolError):
        asyncio.run(tool.run(arguments, EpisodeState()))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("drwx 2 1000 40 Nov 26 03:27 .", "drwx 2 1000 40 Dec  1 13:05 ."),
        ("2026-11-26 03:27:16,100 INFO ok", "2027-01-02 00:00:00,999 INFO ok"),
        ("4 passed in 0.02s", "4 passed in 1.3s"),
        ("real\t0m0.003s", "real\t0m1.250s"),
        ("[1] 4711", "[1] 12"),
        ("/tmp/tmpab12cd34/x", "/tmp/tmpzz99yy88/x"),
        ("/tmp/tmp.Ab12Cd34Ef", "/tmp/tmp.Zz99Yy88Xx"),
    ],
)
def test_what_differs_from_run_to_run_is_no_divergence(first: str, second: str) -> None:
    (tool,) = tools_of(["bash"], AgentBoxes(Boxes(SETTINGS), LIMITS)).values()
    assert tool.normalised(first) == tool.normalised(second)
    assert tool.normalised("42 items") != tool.normalised("43 items")


def test_the_user_has_the_same_number_in_every_box() -> None:
    async def script(act: Act) -> str:
        return await act("id -u; touch a; stat -c %u a")

    assert episode(script) == "1000\n1000"
