"""The evaluator's end of a slot: a process in whose box programs run, one at a time."""

import asyncio
import itertools
import json
import os
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gage_eval.box.inside.wire import ANY, NoMessage, packed, parsed
from gage_eval.box.types import BoxError

# Seconds that a harness has to report after the wall time is over.
_GRACE_S = 5.0
# Ids of the users of slots; below those that systemd hands out. Processes start at different ones.
_FIRST_ID, _IDS = 60_100, 900


SocketKind: TypeAlias = tuple[int, int, bool]
LISTENER: SocketKind = (socket.AF_INET, socket.SOCK_STREAM, True)
STREAM: SocketKind = (socket.AF_UNIX, socket.SOCK_STREAM, False)


class SlotDied(BoxError):
    """The slot's process ended. The next use starts another one."""


@dataclass
class Harness:
    """One harness inside of a slot: the socket that it reads from, and what is known when it has ended."""

    name: int
    channel: socket.socket
    ended: asyncio.Future[Mapping[str, Any]]


class Slot(ABC):
    """Where programs run one at a time, each in a harness that nothing has used."""

    ending_s: float = 10.0
    """Seconds that a harness has to end."""
    is_container: bool = False

    @abstractmethod
    def harness(self) -> Harness:
        """A new harness.

        Raises:
            SlotDied: the slot can make none.
        """

    @abstractmethod
    def kill(self, harness: Harness) -> None:
        """End a harness, if it is still there."""

    @abstractmethod
    async def close(self) -> None:
        """End all of it."""

    async def request(self, harness: Harness, *messages: Mapping[str, Any], wall_s: float) -> dict[str, Any]:
        """Send messages and wait for the reply. The harness is ended after the wall time; without a reply: ``{}``."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(wall_s + _GRACE_S, self.kill, harness)
        try:
            await loop.sock_sendall(harness.channel, b"".join(map(packed, messages)))
            return await _reply(harness.channel)
        except (OSError, EOFError, NoMessage):
            return {}
        finally:
            timer.cancel()

    async def handed(self, harness: Harness, kinds: Sequence[SocketKind]) -> list[socket.socket]:
        """The sockets that a harness hands over after its first reply.

        Raises:
            OSError: it hands over something else.
        """
        return await received_sockets(harness.channel, kinds)

    async def finish(self, harness: Harness) -> Mapping[str, Any]:
        """End a harness and all its processes. Returns its exit status and CPU time."""
        harness.channel.close()
        self.kill(harness)
        try:
            return await asyncio.wait_for(asyncio.shield(harness.ended), self.ending_s)
        except TimeoutError:
            raise SlotDied("the box's server does not answer") from None


class ServerSlot(Slot):
    """Starts the server of `gage_eval.box.inside` and asks it for harnesses, one ahead."""

    def __init__(self, command: Callable[[int], Sequence[str]], environment: Mapping[str, str] | None = None) -> None:
        self._command, self._environment = command, environment
        self._names = itertools.count()
        self._ended: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._next: Harness | None = None

    def _start(self) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(  # noqa: S603
                self._command(its.fileno()), pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=self._environment
            )
        ours.setblocking(False)  # noqa: FBT003
        self._control = ours
        asyncio.get_running_loop().add_reader(ours, self._heard)
        self._next = self._ask()

    def harness(self) -> Harness:
        """A harness that nothing has used. It was made while the one before ran.

        Raises:
            SlotDied: the slot's process ended.
        """
        if self._control is None:
            self._start()
        if self._next is None:
            raise SlotDied("the box's server ended")
        harness, self._next = self._next, self._ask()
        return harness

    def kill(self, harness: Harness) -> None:
        """End a harness, if it is still there."""
        if not harness.ended.done():
            self._send({"kill": harness.name})

    async def close(self) -> None:
        """End its process, and with it everything in it."""
        if self._next is not None:
            self._next.channel.close()
            self._next = None
        self._lost()
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
            self._process = None

    def _ask(self) -> Harness | None:
        name = next(self._names)
        ours, its = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003
        ended = asyncio.get_running_loop().create_future()
        self._ended[name] = ended
        with its:
            if not self._send({"id": name}, its.fileno()):
                ours.close()
                return None
        return Harness(name, ours, ended)

    def _send(self, message: Mapping[str, Any], *descriptors: int) -> bool:
        if self._control is None:
            return False
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
        except OSError:
            self._lost()
            return False
        return True

    def _heard(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        message = json.loads(data)
        ended = self._ended.pop(message["id"], None)
        if ended is not None and not ended.done():
            ended.set_result(message)

    def _lost(self) -> None:
        """The process has ended: what waits for it fails."""
        if self._control is None:
            return
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        self._control = None
        for ended in self._ended.values():
            if not ended.done():
                ended.set_exception(SlotDied("the box's server ended"))
                ended.exception()
        self._ended.clear()


async def received_sockets(channel: socket.socket, kinds: Sequence[SocketKind]) -> list[socket.socket]:
    """Sockets of some kinds that come through another one.

    Raises:
        OSError: something else came, or the end.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            _, descriptors, _, _ = socket.recv_fds(channel, 1, len(kinds))
            break
        except BlockingIOError:
            readable = asyncio.Event()
            loop.add_reader(channel, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(channel)
    received: list[socket.socket] = []
    for descriptor in descriptors:
        try:
            received.append(socket.socket(fileno=descriptor))
        except OSError:
            os.close(descriptor)
    if [_kind(item) for item in received] != list(kinds):
        for item in received:
            item.close()
        raise OSError("what came from the box are not the sockets that it was asked for")
    for item in received:
        item.setblocking(False)  # noqa: FBT003
    return received


def _kind(item: socket.socket) -> SocketKind:
    return item.family, item.type, bool(item.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


async def _reply(channel: socket.socket) -> dict[str, Any]:
    loop = asyncio.get_running_loop()

    async def exactly(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = await loop.sock_recv(channel, min(size - len(data), 1 << 16))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    size = int.from_bytes(await exactly(4), "little")
    if size > ANY:
        raise NoMessage(f"{size} bytes")
    return parsed(await exactly(size))


def server_command(interpreter: Sequence[str], descriptor: int, *, contained: bool) -> list[str]:
    """The command of the server inside of a box."""
    kind = "contained" if contained else "open"
    return [*interpreter, "-m", "gage_eval.box.inside.server", str(descriptor), kind]


def user_of(number: int) -> int:
    """The user of a slot. The kernel counts processes per user, so that slots must not share one."""
    return _FIRST_ID + (os.getpid() * 64 + number) % _IDS
