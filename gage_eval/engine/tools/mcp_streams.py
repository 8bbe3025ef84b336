"""The messages of an MCP server in a box, one a line of its stdin and stdout, as the package `mcp` takes them."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

_LONGEST_LINE = 4 << 20
# A server that only logs may write many messages, and one that prints by mistake some lines.
_MOST_MESSAGES, _MOST_OTHER = 100_000, 100


class LineStreams:
    """The streams of a server.

    Attributes:
        has_ended: the server has closed its end, or did what no server does.
        problem: what it did, as a sentence without a subject.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.has_ended = False
        self.problem = ""

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """The streams of messages that a client reads and writes."""
        import anyio

        reader, writer = await asyncio.open_connection(sock=self._end, limit=_LONGEST_LINE)
        into, read = anyio.create_memory_object_stream[Any](0)
        write, out = anyio.create_memory_object_stream[Any](0)
        async with into, read, write, out, anyio.create_task_group() as group:
            group.start_soon(self._hear, reader, into)
            group.start_soon(_say, out, writer)
            try:
                yield read, write
            finally:
                group.cancel_scope.cancel()
                writer.close()

    async def _hear(self, reader: asyncio.StreamReader, into: "MemoryObjectSendStream[Any]") -> None:
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        messages = others = 0
        async with into:
            try:
                while line := await reader.readline():
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        others += 1
                    else:
                        messages += 1
                        await into.send(SessionMessage(message))
                    if others > _MOST_OTHER or messages > _MOST_MESSAGES:
                        what = "messages" if messages > _MOST_MESSAGES else "other lines"
                        self.problem = f"it wrote too many {what}"
                        break
            except ValueError:
                self.problem = f"it wrote a line of more than {_LONGEST_LINE >> 20} MiB"
            except (OSError, anyio.BrokenResourceError):
                pass
            self.has_ended = True


async def _say(out: "MemoryObjectReceiveStream[Any]", writer: asyncio.StreamWriter) -> None:
    try:
        async for said in out:
            writer.write(said.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await writer.drain()
    except OSError:
        # The client learns it from the end of what it reads.
        return
