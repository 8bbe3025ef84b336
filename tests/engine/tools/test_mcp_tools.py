"""Tools of an MCP server: a session for each episode, and one sentence for whatever a server does wrong."""

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support import mcp_tools
from support.boxes import NEEDS_BOX
from support.waiting import wait_for

from gage_eval.base.errors import InputError
from gage_eval.base.ports import free_port, is_free
from gage_eval.box.executors import ExecutorSettings
from gage_eval.box.types import Limits
from gage_eval.engine.tools.mcp import McpServer
from gage_eval.engine.tools.sets import episode_tools, tools_of
from gage_eval.models.client.tools import EpisodeState, ToolError, ToolFailed
from gage_eval.pipeline.boxes import AgentBoxes, Boxes

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


def boxed(
    tmp_path: Path, *fault: str, command: Sequence[str] = ("python3", "tools.py"), executor: str = "bubblewrap"
) -> McpServer:
    """A server in the episode's box."""
    shutil.copy(mcp_tools.__file__, tmp_path / "tools.py")
    settings = (
        ExecutorSettings(slots=2, allow_unsafe=True) if executor == "unsafe" else ExecutorSettings("bubblewrap", 2)
    )
    argv, files = [*command, *fault], {"tools.py": tmp_path / "tools.py"}
    limits = Limits(cpu_s=20.0, wall_s=300.0, memory_mb=256)
    box = AgentBoxes(Boxes(settings), limits, starts=[argv], files=files)
    return McpServer(argv, None, tmp_path, ["twice", "count"], "state", timeout_s=60.0, box=box)


def boxed_episode(served: McpServer, *calls: tuple[str, str]) -> list[str]:
    """The outputs of the calls of one episode, of ``bash`` too."""
    assert isinstance(served.box, AgentBoxes)
    tools = tools_of(["bash"], served.box, [served])

    async def run() -> list[str]:
        assert served.box is not None
        executor, outputs = await asyncio.to_thread(served.box.executor), []
        state = EpisodeState(executor=lambda: executor)
        try:
            async with state.exits:
                for name, arguments in calls:
                    try:
                        outputs.append(await tools[name].run(arguments, state))
                    except (ToolError, ToolFailed) as error:
                        outputs.append(f"{type(error).__name__}: {error}")
        finally:
            await executor.close()
        return outputs

    return asyncio.run(run())


TWICE, COUNT = ("twice", '{"number": 4}'), ("count", "{}")


@NEEDS_BOX
@pytest.mark.parametrize("executor", ["bubblewrap", "unsafe"])
def test_a_server_in_a_box_shares_it_with_commands_and_no_other_episode(tmp_path: Path, executor: str) -> None:
    served = boxed(tmp_path, executor=executor)
    bash = ("bash", json.dumps({"command": "sleep 50 & ls tools.py"}))
    for _ in range(2):
        assert boxed_episode(served, TWICE, bash, COUNT) == ["8", "tools.py", "2"]


@NEEDS_BOX
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("dies", "gave no result of tool 'twice': exit 1: out of order"),
        ("lies", "gave no result of tool 'twice'"),
        ("line", "a line of more than 4 MiB"),
        ("rubbish", "too many other lines"),
        ("megabytes", "more characters]"),
        ("network", "8"),
        ("odd", "8"),
    ],
)
def test_what_a_server_in_a_box_does_wrong_is_one_sentence_and_bash_goes_on(
    tmp_path: Path, fault: str, said: str
) -> None:
    output, after = boxed_episode(boxed(tmp_path, fault), TWICE, ("bash", '{"command": "echo on"}'))
    assert said in output
    assert "\n" not in output[:1000]
    assert len(output) < 100_000
    assert after == "on"


@NEEDS_BOX
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-server",), "no-such-server: No such file.* put the program into its box"),
        (("python3", "-c", "import sys; sys.exit('no module')"), "exit 1: no module"),
        (("true",), "exit 0"),
    ],
)
def test_a_command_that_its_box_cannot_run_is_refused_before_the_run(
    tmp_path: Path, command: Sequence[str], said: str
) -> None:
    served = boxed(tmp_path, command=command)
    with pytest.raises(InputError, match=said):
        served.ask()


def test_a_token_is_sent_and_never_shown(tmp_path: Path) -> None:
    secret, heard = "canary-of-a-token", []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.append(self.headers["Authorization"])
            said = heard[-1]
            answer: dict[str, Any] = {
                "initialize": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": said, "version": "1"},
                },
                "tools/list": {"tools": [{"name": "twice", "description": said, "inputSchema": {"type": "object"}}]},
                "tools/call": {"content": [{"type": "text", "text": said}]},
            }.get(message.get("method"), {})
            body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": answer}).encode()
            self.send_response(200 if "id" in message else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(405)

        do_DELETE = do_GET  # noqa: N815

        def log_message(self, format: str, *arguments: Any) -> None: ...  # noqa: A002

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{endpoint.server_port}/mcp"
        served = McpServer((), url, tmp_path, ["twice"], token=lambda: secret)
        (output,) = episode(served, ("twice", "{}"))
        shown = json.dumps([output, served.tools()[0].identity, dict(served.listing), repr(served), served.key])
        endpoint.shutdown()
    assert {*heard} == {f"Bearer {secret}"}
    assert output == "Bearer ***"
    assert secret not in shown


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
        ("schema", ["twice"], r"cannot list its tools: tools\.0\.inputSchema"),
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
