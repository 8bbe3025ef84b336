"""Tools of a server that speaks the Model Context Protocol: a command, or a URL.

Each episode has its own session from its first call to its end. A command runs in the episode's box, from the box's
begin to its end; on the user's word it runs outside, once for each session.
"""

import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import ValidationError

from gage_eval.base.canonical import JsonValue, canonical_text, decode, digest
from gage_eval.base.errors import InputError
from gage_eval.box.types import Box, BoxError
from gage_eval.engine.loop import EventLoop
from gage_eval.engine.tools.box import AgentBox, opened, without_varying
from gage_eval.engine.tools.mcp_streams import LineStreams
from gage_eval.engine.tools.python import named_arguments, shown
from gage_eval.extend.allowed_code import allowed_entries
from gage_eval.extend.extras import missing
from gage_eval.models.backends import guard
from gage_eval.models.client.tools import Effects, EpisodeState, ToolError, ToolFailed

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult


_START_S = 60.0
_MOST_PAGES = 100
_ENDING_S = 2.0
# A shell's exit code of a program that is not there, and the box's.
_NOT_FOUND = 127
_LIMITS = {"cpu": "processor time", "memory": "memory"}
# Stands for a secret.
_MASK = "***"
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
        folder: where a command runs that has no box.
        box: the boxes that a command runs in.
        place: of the command among those that its box starts.
        token: gives the secret that a URL gets.
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
    box: AgentBox | None = None
    place: int = 0
    token: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"MCP server '{self.url or ' '.join(self.command)}'"

    @property
    def key(self) -> str:
        """Equal where its list of tools is."""
        box = None if self.box is None else [self.box.identity, self.place]
        return digest(["mcp", list(self.command), self.url, str(self.folder), list(self.names), box])

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
        async with AsyncExitStack() as stack:
            state = EpisodeState(exits=stack)
            if self.box is not None:
                executor = await asyncio.to_thread(self.box.executor)
                stack.push_async_callback(executor.close)
                state.executor = lambda: executor
            return await self.definitions(await _begun(self, state))

    async def definitions(self, session: "Session") -> Mapping[str, JsonValue]:
        """What a server lists now.

        Raises:
            ToolFailed: it lists nothing usable.
        """
        by_name: dict[str, Any] = {}
        cursor = None
        client = await session.client()
        async with session.failures("cannot list its tools"):
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
            definitions[name] = decode(session.hidden(canonical_text({"type": "function", "function": function})))
        return definitions


@dataclass(frozen=True)
class McpTool:
    """A tool of a server: `gage_eval.models.client.tools.DefinedTool`."""

    server: McpServer
    name: str

    @property
    def box(self) -> AgentBox | None:
        """The boxes that its server runs in."""
        return self.server.box

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
        where: dict[str, JsonValue] = {} if server.box is None else {"box": server.box.identity}
        what = {"mcp": server.url or list(server.command), "definition": self.definition, "effects": server.effects}
        return {**what, **where}

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

        session = await _session(self.server, state)
        client = await session.client()
        async with session.failures(f"gave no result of tool '{self.name}'"):
            try:
                async with asyncio.timeout(self.server.timeout_s):
                    result = await client.call_tool(self.name, values)
            except TimeoutError:
                raise ToolFailed(f"tool '{self.name}' took longer than {self.server.timeout_s:g} s") from None
            except MCPError as error:
                if error.code != _INVALID_PARAMS:
                    raise
                raise ToolError(shown(session.hidden(error.message))) from None
        text = shown(session.hidden(_text(result)))
        if result.is_error:
            raise ToolError(text)
        return text

    def normalised(self, content: str) -> str:
        """The content; that of a server in a box without times and process ids, which differ from run to run."""
        return content if self.server.box is None else without_varying(content)


class Session:
    """A session with a server in a separate task: whatever ends it, it never cancels the episode."""

    def __init__(self, server: McpServer, box: Box | None) -> None:
        self._server, self._box = server, box
        self._lines = None if box is None else LineStreams(box.started[server.place])
        self._token: str | None = None
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
                if self._server.token is not None:
                    self._token = await asyncio.to_thread(self._server.token)
                async with _connected(self._server, said, self._lines, self._token) as client:
                    self._client.set_result(client)
                    await self._left.wait()
            except Exception as error:  # noqa: BLE001 - told where the client is waited for
                if not self._client.done():
                    why = await self._why() or self.hidden(_last_line(said) or _cause(error))
                    self._client.set_exception(ToolFailed(f"{self._server} cannot be used: {why}"))

    def hidden(self, text: str) -> str:
        """A text without the secret that its server gets, and may repeat."""
        return text if self._token is None else text.replace(self._token, _MASK)

    @asynccontextmanager
    async def failures(self, what: str) -> AsyncIterator[None]:
        """Turns whatever a client raises into one sentence."""
        try:
            yield
        except (ToolError, ToolFailed):
            raise
        except Exception as error:
            why = await self._why() or self.hidden(_cause(error))
            raise ToolFailed(f"{self._server} {what}: {why}") from error

    async def _why(self) -> str:
        """Why a server in a box does not go on; empty where it does, or has no box."""
        if self._lines is None or self._box is None or not self._lines.has_ended:
            return ""
        if self._lines.problem:
            return self._lines.problem
        try:
            state = await self._box.state(self._server.place)
            until = time.monotonic() + _ENDING_S
            # Its end of the stream closes shortly before it ends.
            while state.exit is None and time.monotonic() < until:
                await asyncio.sleep(0.02)
                state = await self._box.state(self._server.place)
        except BoxError as error:
            return _clean(str(error))
        if state.exit is None:
            return "it closed its stdout"
        if state.reason:
            return f"it used more {_LIMITS[state.reason]} than its box allows"
        last = _clean((state.stderr.strip().splitlines() or [""])[-1])
        if state.exit == _NOT_FOUND:
            return f"{last}; put the program into its box, with 'box.image' or 'files'"
        return f"exit {state.exit}" + (f": {last}" if last else "")


@asynccontextmanager
async def _connected(
    server: McpServer, errors: IO[str], lines: LineStreams | None, token: str | None
) -> "AsyncIterator[Client]":
    try:
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client
    except ImportError:
        raise missing("a tool of an MCP server", "mcp", "mcp") from None
    # What it logs with a traceback ends a call, which says so in one sentence.
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    if lines is not None:
        async with Client(lines.connected(), cache=None) as client:
            yield client
        return
    if server.url is not None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with (
            create_mcp_http_client(headers) as http,
            Client(streamable_http_client(server.url, http_client=http), cache=None) as client,
        ):
            yield client
        return
    if allowed_entries() is not None:
        raise ToolFailed("this worker takes no 'allow_unsafe' from a config")
    # No process of the server outlives this one.
    guarded = [guard.__file__, str(os.getpid()), *server.command]
    parameters = StdioServerParameters(command=sys.executable, args=guarded, cwd=server.folder)
    async with Client(stdio_client(parameters, errlog=errors), cache=None) as client:  # type: ignore[arg-type]
        yield client


async def _session(server: McpServer, state: EpisodeState) -> Session:
    """An episode's session, whose server lists what it listed when the run was planned."""
    session: Session | None = state.objects.get(server.key)
    if session is None:
        session = state.objects[server.key] = await _begun(server, state)
        if await server.definitions(session) != await asyncio.to_thread(lambda: server.listing):
            raise ToolFailed(f"{server} describes its tools in another way than when the run began")
    return session


async def _begun(server: McpServer, state: EpisodeState) -> Session:
    """A new session, which ends with the episode, before its box."""
    try:
        box = None if server.box is None else await opened(server.box, state)
    except BoxError as error:
        raise ToolFailed(str(error).rstrip("."), "box_error") from None
    session = Session(server, box)
    state.exits.push_async_callback(session.close)
    return session


def _cause(error: BaseException) -> str:
    """What is behind a group of errors, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        return _clean(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")
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
