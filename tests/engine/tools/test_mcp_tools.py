"""Tools of an MCP server: a session for each episode, and one sentence for whatever a server does wrong."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import mcp_tools
from support.waiting import wait_for

from gage_eval.base.errors import InputError
from gage_eval.base.ports import free_port, is_free
from gage_eval.engine.tools.mcp import McpServer
from gage_eval.engine.tools.sets import episode_tools, tools_of
from gage_eval.models.client.tools import EpisodeState, ToolError, ToolFailed

REAL = """
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("real")

@server.tool()
def greet(name: str, times: int = 1) -> str:
    '''A greeting.'''
    return " ".join([f"hello {name}"] * times)

if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
"""


def server(folder: Path, fault: str = "", names: Sequence[str] = ("twice",), timeout_s: float = 60.0) -> McpServer:
    command = (sys.executable, mcp_tools.__file__, *([fault] if fault else []))
    return McpServer(command, None, folder, names, timeout_s=timeout_s)


def episode(served: McpServer, *calls: tuple[str, str]) -> list[str]:
    """The outputs of the calls of one episode; the name of an error stands before its sentence."""
    tools = {tool.name: tool for tool in served.tools()}

    async def run() -> list[str]:
        state, outputs = EpisodeState(), []
        async with state.exits:
            for name, arguments in calls:
                try:
                    outputs.append(await tools[name].run(arguments, state))
                except (ToolError, ToolFailed) as error:
                    outputs.append(f"{type(error).__name__}: {error}")
        return outputs

    return asyncio.run(run())


def test_an_episode_has_a_session_of_its_own(tmp_path: Path) -> None:
    served = server(tmp_path, names=["twice", "count"])
    made = tools_of([], servers=[served])
    (first, _) = episode_tools(made, {}).definitions
    assert first["function"] == {
        "name": "twice", "description": "Twice the number.", "parameters": mcp_tools.NUMBER
    }  # fmt: skip
    assert {tool.effects for tool in made.values()} == {"outside"}
    for _ in range(2):
        outputs = episode(served, ("twice", '{"number": 4}'), ("count", ""), ("twice", "{}"), ("twice", "not JSON"))
        assert outputs[:2] == ["8", "2"], "the second call of a new process"
        assert [output.partition(":")[0] for output in outputs[2:]] == ["ToolError"] * 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("dies", "ToolFailed"),
        ("hangs", "longer than 0.5 s"),
        ("lies", "gave no result of tool 'twice'"),
        ("megabytes", "more characters]"),
        ("image", "[image/png, which is not text]"),
        ("odd", "2"),
    ],
)
def test_what_a_server_does_wrong_is_one_sentence(tmp_path: Path, fault: str, said: str) -> None:
    # The first call may wait for a slow machine.
    served = server(tmp_path, fault, timeout_s=0.5 if fault == "hangs" else 60)
    (output,) = episode(served, ("twice", '{"number": 1}'))
    assert said in output
    assert "\n" not in output[:1000]
    assert len(output) < 100_000


@pytest.mark.parametrize(
    ("fault", "names", "said"),
    [
        ("never", ["twice"], r"cannot be used: \[31mno such module\.$"),
        ("schema", ["twice"], "cannot list its tools"),
        ("", ["thrice"], "no tool 'thrice'"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused_before_the_run(
    tmp_path: Path, fault: str, names: Sequence[str], said: str
) -> None:
    (tool,) = server(tmp_path, fault, names).tools()
    with pytest.raises(InputError, match=said):
        assert tool.definition


def test_a_command_that_does_not_exist_is_said(tmp_path: Path) -> None:
    (tool,) = McpServer(("no-such-command",), None, tmp_path, ["twice"]).tools()
    with pytest.raises(InputError, match="no-such-command"):
        assert tool.definition


def test_a_tool_of_a_server_with_the_name_of_another_tool_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def twice(number: int) -> int: ...")
    for names, servers in (([f"{tmp_path}/own.py:twice"], 1), ([], 2)):
        with pytest.raises(InputError, match="two tools are named 'twice'"):
            tools_of(names, servers=[server(tmp_path)] * servers)


def test_a_list_that_changed_since_the_run_began_is_refused(tmp_path: Path) -> None:
    served = server(tmp_path, "changing")
    before = served.tools()[0].identity
    (tmp_path / "changed").touch()
    (output,) = episode(served, ("twice", '{"number": 1}'))
    assert "in another way" in output
    assert served.tools()[0].identity == before, "that of the run's begin"


def test_servers_made_with_the_package_answer_over_stdio_and_http(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text(REAL)
    program = McpServer((sys.executable, "real.py"), None, tmp_path, ["greet"])
    call = ("greet", json.dumps({"name": "Ada", "times": 2}))
    assert episode(program, call) == ["hello Ada hello Ada"]
    port = free_port()
    with subprocess.Popen([sys.executable, "real.py", str(port)], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: not is_free(port), "the server listens")
            endpoint = McpServer((), f"http://127.0.0.1:{port}/mcp", tmp_path, ["greet"])
            assert episode(endpoint, call) == ["hello Ada hello Ada"]
        finally:
            process.kill()
