"""A program in a box talks to the evaluator through the socket that the box hands over."""

import asyncio

from gage_eval.box.types import BoxSpec, Executor, Limits, Ran

# Says hello to the evaluator; then tries an address of the machine.
_PROGRAM = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as door:
    door.sendall(b"hello\\n")
    print(door.makefile().read())
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5)
except OSError as error:
    print(type(error).__name__)
"""


async def talked(executor: Executor, spec: BoxSpec, limits: Limits) -> Ran:
    """What came of a program that says hello, and tries to reach a server of this machine."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"you said " + await reader.readline())
        writer.close()

    box = await executor.open(spec, limits)
    try:
        assert box.listener is not None
        port = box.listener.getsockname()[1]
        outside = await asyncio.start_server(echo, "127.0.0.1", 0)
        inside = await asyncio.start_server(echo, sock=box.listener)
        async with outside, inside:
            elsewhere = outside.sockets[0].getsockname()[1]
            return await box.run(["python3", "-c", _PROGRAM, str(port), str(elsewhere)])
    finally:
        await box.close()
