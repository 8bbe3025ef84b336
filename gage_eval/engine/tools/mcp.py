"""Tools of a server that speaks the Model Context Protocol: a command, or a URL.

Each episode has its own session from its first call to its end. A command is then started once for each episode.
"""

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gage_eval.base.canonical import JsonValue, canonical_text, digest
from gage_eval.base.errors import InputError
from gage_eval.engine.loop import EventLoop
from gage_eval.engine.tools.python import named_arguments, shown
from gage_eval.extend.extras import missing
from gage_eval.models.backends import guard
from gage_eval.models.client.tools import Effects, EpisodeState, ToolError, ToolFailed

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult


_START_S = 60.0
_MOST_PAGES = 100
_LONGEST_LINE = 300
# JSON-RPC's code of a call whose arguments the server does not take.
_INVALID_PARAMS = -32602
# Of servers that this process has asked, by `McpServer.key`.
_listed: dict[str, Mapping[str, JsonValue]] = {}


@dataclass(frozen=True)
class McpServer:
    """A server, and what its tools do.

    Attributes:
        command: that starts it; empty for one at a URL.
        url: of its endpoint.
        folder: where a command runs.
        names: the tools that the model may call.
        effects, is_repeatable: of all its tools; see `Tool`.
        timeout_s: seconds that a call may take.
    """

    command: Sequence[str] = ()
    url: str | None = None
    folder: Path = field(default_factory=Path)
    names: Sequence[str] = ()
    effects: Effects = "outside"
    is_repeatable: bool = False
    timeout_s: float = 60.0

    def __str__(self) -> str:
        return f"MCP server '{self.url or ' '.join(self.command)}'"

    @property
    def key(self) -> str:
        """Equal where its list of tools is."""
        return digest(["mcp", list(self.command), self.url, str(self.folder), list(self.names)])

    def tools(self) -> "list[McpTool]":
        """Its tools; it is not started before one of them is described."""
        return [McpTool(self, name) for name in self.names]

    @property
    def listing(self) -> Mapping[str, JsonValue]:
        """The definitions of its tools by name, in OpenAI form, as they were when it was last asked."""
        return _listed.get(self.key) or self.ask()

    def ask(self) -> Mapping[str, JsonValue]:
        """Ask what it lists now.

        Raises:
            InputError: it cannot be asked, or lacks a tool, or describes one wrongly.
        """
        # The caller may run on a loop.
        loop = EventLoop()
        try:
            _listed[self.key] = loop.call(self._listed_now())
        except ToolFailed as error:
            raise InputError(f"{error}.") from None
        finally:
            loop.close()
        return _listed[self.key]

    async def _listed_now(self) -> Mapping[str, JsonValue]:
        session = Session(self)
        try:
            return await self.definitions(await session.client())
        finally:
            await session.close()

    async def definitions(self, client: "Client") -> Mapping[str, JsonValue]:
        """What a server lists now.

        Raises:
            ToolFailed: it lists nothing usable.
        """
        by_name: dict[str, Any] = {}
        cursor = None
        with _failures(self, "cannot list its tools"):
            try:
                async with asyncio.timeout(_START_S):
                    for _ in range(_MOST_PAGES):
                        page = await client.list_tools(cursor=cursor)
                        by_name |= {tool.name: tool for tool in page.tools if tool.name in self.names}
                        if (cursor := page.next_cursor) is None:
                            break
            except TimeoutError:
                raise ToolFailed(f"{self} did not list its tools in {_START_S:g} s") from None
        definitions = {}
        for name in self.names:
            if name not in by_name:
                raise ToolFailed(f"{self} has no tool '{name[:80]}'")
            about, schema = by_name[name].description or "", by_name[name].input_schema
            function = {"name": name, "description": about, "parameters": schema}
            definitions[name] = {"type": "function", "function": function}
        return definitions


@dataclass(frozen=True)
class McpTool:
    """A tool of a server: `gage_eval.models.client.tools.DefinedTool`."""

    server: McpServer
    name: str

    @property
    def effects(self) -> Effects:
        """As the config declares them."""
        return self.server.effects

    @property
    def is_repeatable(self) -> bool:
        """See `Tool`."""
        return self.server.is_repeatable

    @property
    def identity(self) -> JsonValue:
        """The server, what its tool is called with, and the declared effects."""
        server = self.server
        return {"mcp": server.url or list(server.command), "definition": self.definition, "effects": server.effects}

    @property
    def definition(self) -> dict[str, Any]:
        """The definition in OpenAI form; the server is asked for it.

        Raises:
            InputError: it cannot be asked.
        """
        definition = self.server.listing[self.name]
        assert isinstance(definition, dict)
        return definition

    async def run(self, arguments: str, state: EpisodeState) -> str:
        """See `Tool`: the text of the content, and a word for what is not text."""
        values = named_arguments(arguments)
        from mcp import MCPError

        client = await _session(self.server, state)
        with _failures(self.server, f"gave no result of tool '{self.name}'"):
            try:
                async with asyncio.timeout(self.server.timeout_s):
                    result = await client.call_tool(self.name, values)
            except TimeoutError:
                raise ToolFailed(f"tool '{self.name}' took longer than {self.server.timeout_s:g} s") from None
            except MCPError as error:
                if error.code != _INVALID_PARAMS:
                    raise
                raise ToolError(shown(error.message)) from None
        text = shown(_text(result))
        if result.is_error:
            raise ToolError(text)
        return text

    def normalised(self, content: str) -> str:
        """The content."""
        return content


class Session:
    """A session with a server in a separate task: whatever ends it, it never cancels the episode."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._left = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve())

    async def client(self) -> "Client":
        """The client, when the server has answered.

        Raises:
            ToolFailed: it cannot be started, or does not speak the protocol.
        """
        done, _ = await asyncio.wait([self._client], timeout=_START_S)
        if not done:
            raise ToolFailed(f"{self._server} did not answer in {_START_S:g} s")
        return self._client.result()

    async def close(self) -> None:
        """End the session, and the process if it is one."""
        self._left.set()
        if not self._client.done():
            self._task.cancel()
        await asyncio.wait([self._task])

    async def _serve(self) -> None:
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            try:
                async with _connected(self._server, said) as client:
                    self._client.set_result(client)
                    await self._left.wait()
            except Exception as error:  # noqa: BLE001 - told where the client is waited for
                if not self._client.done():
                    self._client.set_exception(
                        ToolFailed(f"{self._server} cannot be used: {_last_line(said) or _cause(error)}")
                    )


@asynccontextmanager
async def _connected(server: McpServer, errors: IO[str]) -> "AsyncIterator[Client]":
    try:
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client
    except ImportError:
        raise missing("a tool of an MCP server", "mcp", "mcp") from None
    # What it logs with a traceback ends a call, which says so in one sentence.
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    if server.url is not None:
        async with Client(server.url, cache=None) as client:
            yield client
        return
    # No process of the server outlives this one.
    guarded = [guard.__file__, str(os.getpid()), *server.command]
    parameters = StdioServerParameters(command=sys.executable, args=guarded, cwd=server.folder)
    async with Client(stdio_client(parameters, errlog=errors), cache=None) as client:  # type: ignore[arg-type]
        yield client


async def _session(server: McpServer, state: EpisodeState) -> "Client":
    """The client of an episode's session, whose server lists what it listed when the run was planned."""
    session: Session | None = state.objects.get(server.key)
    if session is not None:
        return await session.client()
    session = state.objects[server.key] = Session(server)
    state.exits.push_async_callback(session.close)
    client = await session.client()
    if await server.definitions(client) != await asyncio.to_thread(lambda: server.listing):
        raise ToolFailed(f"{server} describes its tools in another way than when the run began")
    return client


@contextmanager
def _failures(server: McpServer, what: str) -> Iterator[None]:
    """Turns whatever a client raises into one sentence."""
    try:
        yield
    except (ToolError, ToolFailed):
        raise
    except Exception as error:
        raise ToolFailed(f"{server} {what}: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """The first line of what is behind a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _clean(lines[0])


def _last_line(file: IO[str]) -> str:
    """The last line that a server wrote to stderr."""
    with suppress(OSError):
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
    lines = file.read().strip().splitlines() or [""]
    return _clean(lines[-1])


def _clean(line: str) -> str:
    """A line of a server without signs that would steer a terminal, or that no log can hold."""
    return "".join(filter(str.isprintable, line))[:_LONGEST_LINE].rstrip(".")


def _text(result: "CallToolResult") -> str:
    pieces = []
    for part in result.content:
        resource = getattr(part, "resource", part)
        text = getattr(resource, "text", None)
        kind = getattr(resource, "mime_type", None) or part.type
        pieces.append(text if isinstance(text, str) else f"[{kind}, which is not text]")
    if not pieces and result.structured_content is not None:
        return canonical_text(result.structured_content)
    return "\n".join(pieces)
