"""Slots whose programs run in containers of Docker or Podman, a new one for each.

Where the image has Python, the container's first process is the harness; it gets its own code through stdin. In any
other image the commands are run by the engine.
"""

import asyncio
import base64
import contextlib
import itertools
import math
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gage_eval.box.engine_api import NOT_FOUND, Engine, EngineError, Stream
from gage_eval.box.inside.harness import HANDED_IN
from gage_eval.box.inside.wire import ANY, command_reply, packed, parsed, setup_failure
from gage_eval.box.slot import Harness, Slot, SocketKind, received_sockets, user_of
from gage_eval.box.types import BoxError

_WORK, _TEMPORARY = "/tmp/box", "/tmp"  # noqa: S108
# The harness, and the tests that it runs, besides the program; the processes of both.
_HARNESS_MB, _OWN_PROCESSES = 1280, 8
_OPEN_FILES = 1024
_MEGABYTE = 1 << 20
# Podman makes them writable in a read-only root.
_CLOSED = dict.fromkeys(("/run", "/var/tmp"), "size=64k,mode=755,nosuid,nodev")  # noqa: S108
_PIECE = 1 << 16
_MOST_ERRORS = 4000
# A command that writes more than this many times what is kept of its output is ended.
_FLOOD = 256
# Exit codes of what a signal ended: 128 and the signal's number.
_OVER_CPU, _KILLED = 152, 137
# Reads modules from stdin, by name, then runs the harness.
_PROGRAM = """
import importlib.abc, importlib.util, json, os, sys
def exactly(size):
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data)) or os._exit(1)
    return data
sources = json.loads(exactly(int.from_bytes(exactly(4), sys.byteorder)))
class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name in sources else None
    def get_source(self, name):
        return sources[name]
    def is_package(self, name):
        return any(other.startswith(name + ".") for other in sources)
sys.meta_path.insert(0, Sources())
from gage_eval.box.inside import container
container.serve()
"""
# Makes the work folder, says so, and stays until stdin ends.
_WAIT = f"mkdir -m 700 {_WORK} && echo && exec cat"
_PUT = 'case $1 in */*) mkdir -p "${1%/*}";; esac && cat > "$1"'
_TAKE = 'if [ -f "$1" ] && [ ! -L "$1" ]; then cat "$1"; else echo "no regular file: $1" >&2; exit 1; fi'


class ContainerSlot(Slot):
    """Runs each program in a new container of its image."""

    ending_s = 60.0
    is_container = True

    def __init__(self, engine: Engine, number: int, image: str) -> None:
        self._engine, self._user, self._image = engine, user_of(number), image
        self._names = itertools.count()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Where harnesses hand over what they opened, by their name.
        self._doors: dict[int, socket.socket] = {}
        self._has_python = True

    def harness(self) -> Harness:
        """A harness. Its container is made when its first message, which holds the limits, is there."""
        name = next(self._names)
        ours, its = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003
        harness = Harness(name, ours, asyncio.get_running_loop().create_future())
        task = self._tasks[name] = asyncio.ensure_future(self._serve(name, its))
        began = time.monotonic()

        def done(task: asyncio.Task[None]) -> None:
            its.close()
            # Of the harness, which may have computed all the time.
            ended: dict[str, Any] = {"cpu_s": time.monotonic() - began}
            if not task.cancelled() and (error := task.exception()) is not None:
                ended["failed"] = f"{self._engine.name}: {error}"
            harness.ended.set_result(ended)
            del self._tasks[name]

        task.add_done_callback(done)
        return harness

    async def handed(self, harness: Harness, kinds: Sequence[SocketKind]) -> list[socket.socket]:
        """See `Slot`."""
        door = self._doors.get(harness.name)
        if door is None:
            raise OSError("the container has ended")
        with door:
            connection, _ = await asyncio.get_running_loop().sock_accept(door)
        with connection:
            connection.setblocking(False)  # noqa: FBT003
            return await received_sockets(connection, kinds)

    def kill(self, harness: Harness) -> None:
        """End a harness with its container."""
        if harness.name in self._tasks:
            _cancel(self._tasks[harness.name])

    async def close(self) -> None:
        """End all containers."""
        tasks = list(self._tasks.values())
        for task in tasks:
            _cancel(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, name: int, its: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=its)
        try:
            first = await _message(reader)
            request = parsed(first[4:])
            hands_over = request["listens"] or request["starts"]
            if self._has_python:
                with self._door(name) if hands_over else contextlib.nullcontext() as door:
                    try:
                        await self._with_python(first, request, door, reader, writer)
                    except _NoPython:
                        self._has_python = False
            if not self._has_python:
                if hands_over:
                    raise BoxError(f"image {self._image!r} has no python3, which the box of a program or server needs")
                await self._without_python(request, reader, writer)
        except asyncio.IncompleteReadError:
            # The evaluator has closed its end.
            return
        finally:
            writer.close()

    @contextlib.contextmanager
    def _door(self, name: int) -> Iterator[str]:
        """A unix socket for the harness in a container. Returns its path."""
        with tempfile.TemporaryDirectory(prefix="gage-box-") as folder, socket.socket(socket.AF_UNIX) as door:
            path = f"{folder}/outside"
            door.bind(path)
            # The user of the container has another number.
            os.chmod(folder, 0o711)  # noqa: S103
            os.chmod(path, 0o666)  # noqa: S103
            door.listen(1)
            door.setblocking(False)  # noqa: FBT003
            self._doors[name] = door
            try:
                yield path
            finally:
                del self._doors[name]

    async def _with_python(
        self,
        first: bytes,
        request: Mapping[str, Any],
        door: str | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        what = ["writable"] if request["writable"] else []
        command = ["python3", "-s", "-c", _PROGRAM, "gage_eval.box.inside.container", *what]
        memory_mb = request["limits"]["memory_mb"] * 2 + _HARNESS_MB
        async with self._started(command, request, memory_mb, door=door) as (_, stream):
            stream.stdin.write(packed(_sources()) + first)
            feeding = asyncio.ensure_future(_feed(reader, stream.stdin))
            errors, has_replied = b"", False
            try:
                while (piece := await stream.read()) is not None:
                    if piece[0] == 1:
                        has_replied = True
                        writer.write(piece[1])
                        await writer.drain()
                    else:
                        errors = (errors + piece[1])[-_MOST_ERRORS:]
            finally:
                feeding.cancel()
            if errors and not has_replied:
                last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise BoxError(f"the harness needs Python 3.10 or newer in image {self._image!r}: {last}")

    @contextlib.asynccontextmanager
    async def _started(
        self,
        command: Sequence[str],
        request: Mapping[str, Any],
        memory_mb: int,
        *ulimits: tuple[str, int],
        door: str | None = None,
    ) -> AsyncIterator[tuple[str, Stream]]:
        """A running container with its streams, and the unix socket that is handed in."""
        config = self._config(command, request, memory_mb, dict(ulimits))
        if door is not None:
            config["HostConfig"]["Binds"] = [f"{door}:{HANDED_IN}"]
        async with contextlib.AsyncExitStack() as stack:
            try:
                identifier = await stack.enter_async_context(self._engine.container(config))
                attach = f"/containers/{identifier}/attach?stream=true&stdin=true&stdout=true&stderr=true"
                stream = await stack.enter_async_context(self._engine.stream(attach))
                await self._engine.acall("POST", f"/containers/{identifier}/start")
            except EngineError as error:
                raise self._refusal(error, command[0]) from None
            yield identifier, stream

    def _refusal(self, error: EngineError, program: str) -> Exception:
        """Why a container could not be started."""
        if f'"{program}"' in str(error):
            return _NoPython() if program == "python3" else BoxError(f"image {self._image!r} has no {program}")
        if error.status == NOT_FOUND:
            name = self._engine.name
            return BoxError(f"image {self._image!r} is not on this machine: {name} pull {self._image}")
        return error

    def _config(
        self, command: Sequence[str], request: Mapping[str, Any], memory_mb: int, ulimits: Mapping[str, int]
    ) -> dict[str, Any]:
        limits, writable = request["limits"], request["writable"]
        processes = limits["processes"] + _OWN_PROCESSES
        bounds = {"nofile": _OPEN_FILES, "nproc": processes, "core": 0, "memlock": 0, "msgqueue": 0, **ulimits}
        files = f"size={limits['files_mb']}m,mode=1777,exec,nosuid,nodev"
        closed = {} if writable else _CLOSED
        return {
            "Image": self._image,
            "Entrypoint": [command[0]],
            "Cmd": list(command[1:]),
            "Hostname": "box",
            "User": "0:0" if writable else f"{self._user}:{self._user}",
            **({} if writable else {"WorkingDir": _TEMPORARY}),
            "Env": ["PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1"],
            "Labels": {"gage-eval": "box"},
            "NetworkDisabled": True,
            **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin", "StdinOnce"), True),
            "HostConfig": {
                "NetworkMode": "none",
                "IpcMode": "none",
                "ReadonlyRootfs": not writable,
                "AutoRemove": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "Tmpfs": {_TEMPORARY: files, **closed, "/dev/shm": "size=1m,mode=1777,nosuid,nodev"},  # noqa: S108
                "Memory": memory_mb * _MEGABYTE,
                "MemorySwap": memory_mb * _MEGABYTE,
                "PidsLimit": processes,
                "NanoCpus": 10**9,
                "Ulimits": [{"Name": name, "Soft": bound, "Hard": bound} for name, bound in bounds.items()],
                "LogConfig": {"Type": "none"},
            },
        }

    async def _without_python(
        self, request: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve the messages of the harness, as far as they ask for commands and files."""
        limits = request["limits"]
        bounds = (("cpu", math.ceil(limits["cpu_s"]) + 1), ("fsize", limits["files_mb"] * _MEGABYTE))
        wait = f"chmod 755 / && {_WAIT}" if request["writable"] else _WAIT
        async with self._started(["sh", "-c", wait], request, limits["memory_mb"], *bounds) as (identifier, stream):
            if await stream.read() is None:
                raise BoxError(f"image {self._image!r} needs sh, mkdir and cat")
            commands = _Commands(self._engine, identifier, request)
            reply = await commands.prepare()
            if request["has_program"] and reply == _OPEN:
                text = f"image {self._image!r} has no python3; for another language set 'command'"
                reply = {"status": "box_error", "reason": "image", "text": text}
            writer.write(packed(reply))
            while reply == _OPEN:
                message = parsed((await _message(reader))[4:])
                try:
                    answer = await commands.reply(message)
                except EngineError:
                    # It says nothing about the command.
                    raise
                except BoxError as error:
                    answer = {"error": str(error)}
                writer.write(packed(answer))


_OPEN = {"status": "open"}


class _Flood(Exception):
    """A command writes without end."""


class _NoPython(Exception):
    """The image has no python3."""


class _Commands:
    """Commands in a running container, each by a call of the engine."""

    def __init__(self, engine: Engine, identifier: str, request: Mapping[str, Any]) -> None:
        self._engine, self._identifier, self._request = engine, identifier, request
        self._has_run = False

    async def prepare(self) -> dict[str, Any]:
        """Write the files and run the setup."""
        try:
            for path, content in self._request["files"].items():
                await self.reply({"put": path, "content": content})
        except BoxError as error:
            return {"status": "box_error", "reason": "files", "text": str(error)}
        if self._request["setup"] is None:
            return _OPEN
        ran = await self._run(["/bin/sh", "-c", self._request["setup"]], b"", self._request["limits"])
        if ran["exit"] == 0:
            return _OPEN
        return setup_failure(ran["reason"], ran["exit"], base64.b64decode(ran["stderr"]))

    async def reply(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one message."""
        if self._has_run:
            # What the command before left running; of one user, all but the first process.
            self._has_run = False
            await self._quiet(["sh", "-c", "kill -9 -1 2>/dev/null; true"])
        if "put" in message:
            content = base64.b64decode(message["content"])
            await self._quiet(["sh", "-c", _PUT, "sh", _below(message["put"])], content)
            return {"status": "written"}
        if "take" in message:
            content = await self._quiet(
                ["sh", "-c", _TAKE, "sh", _below(message["take"])], b"", most=message["largest"] + 1
            )
            if len(content) > message["largest"]:
                raise BoxError(f"{message['take']!r} has more than {message['largest']} bytes")
            return {"content": base64.b64encode(content).decode()}
        return await self._run(message["run"], base64.b64decode(message["stdin"]), message["limits"])

    async def _quiet(self, argv: Sequence[str], stdin: bytes = b"", most: int = _PIECE) -> bytes:
        """Run a command that no program had. Returns what it prints."""
        output: list[bytearray] = [bytearray(), bytearray()]
        code = await self._exec(argv, stdin, output, most, "/" if self._request["writable"] else _WORK)
        if code != 0:
            raise BoxError(output[1].decode("utf-8", "replace").strip() or f"{argv[0]}: exit {code}")
        return bytes(output[0])

    async def _run(self, argv: Sequence[str], stdin: bytes, limits: Mapping[str, Any]) -> dict[str, Any]:
        output: list[bytearray] = [bytearray(), bytearray()]
        used, began = (await self._usage())[0], time.monotonic()
        code: int | None = None
        reason, self._has_run = "", True
        folder = None if self._request["writable"] else _WORK
        try:
            running = self._exec(argv, stdin, output, limits["output_kb"] << 10, folder)
            code = await asyncio.wait_for(running, limits["wall_s"])
        except TimeoutError:
            reason = "idle"
        except _Flood:
            reason = "output"
        wall_s = time.monotonic() - began
        now, peak_mb = await self._usage()
        if code == _OVER_CPU or now - used > limits["cpu_s"]:
            reason = "cpu"
        elif code == _KILLED and await self._was_out_of_memory():
            reason = "memory"
        return command_reply(code, output, reason, now - used, wall_s, peak_mb)

    async def _exec(
        self, argv: Sequence[str], stdin: bytes, output: Sequence[bytearray], most: int, folder: str | None
    ) -> int:
        """Run a command to its end, by default in the image's folder. Of each output the first bytes are kept.

        Returns its exit code.
        """
        own = {} if self._request["writable"] else {"HOME": _WORK}
        env = {**own, "TMPDIR": _TEMPORARY, "LANG": "C.UTF-8", **self._request["env"]}
        body: dict[str, Any] = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True}
        if folder is not None:
            body["WorkingDir"] = folder
        body |= {"Cmd": list(argv), "Env": [f"{name}={value}" for name, value in env.items()]}
        name = (await self._engine.acall("POST", f"/containers/{self._identifier}/exec", body))["Id"]
        async with self._engine.stream(f"/exec/{name}/start", {"Detach": False, "Tty": False}) as stream:
            feeding, written = asyncio.ensure_future(_give(stream.stdin, stdin)), 0
            try:
                while (piece := await stream.read()) is not None:
                    kept = output[piece[0] - 1]
                    kept += piece[1][: max(most - len(kept), 0)]
                    written += len(piece[1])
                    if written > most * _FLOOD:
                        raise _Flood
            finally:
                feeding.cancel()
        return int((await self._engine.acall("GET", f"/exec/{name}/json"))["ExitCode"])

    async def _usage(self) -> tuple[float, float]:
        """Seconds of processor time and megabytes of the container."""
        stats = await self._engine.acall("GET", f"/containers/{self._identifier}/stats?stream=false&one-shot=true")
        memory = stats["memory_stats"]
        held = memory.get("max_usage") or memory.get("usage", 0)
        return stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9, held / _MEGABYTE

    async def _was_out_of_memory(self) -> bool:
        state = (await self._engine.acall("GET", f"/containers/{self._identifier}/json"))["State"]
        return bool(state.get("OOMKilled"))


def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel it once: a second time would end the removal of its container."""
    if not task.cancelling():
        task.cancel()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The next message as it came, its length included."""
    length = await reader.readexactly(4)
    size = int.from_bytes(length, "little")
    if size > ANY:
        raise BoxError(f"{size} bytes")
    return length + await reader.readexactly(size)


async def _feed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()


async def _give(writer: asyncio.StreamWriter, content: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        writer.write(content)
        await writer.drain()
        writer.write_eof()


def _below(path: str) -> str:
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise BoxError(f"{path!r} is not a path below the work folder")
    return f"./{path}"


@cache
def _sources() -> Mapping[str, str]:
    """The modules of the harness by name."""
    folder = Path(__file__).parent / "inside"
    files = {f"gage_eval.box.inside.{path.stem}": path.read_text("utf-8") for path in sorted(folder.glob("*.py"))}
    packages = dict.fromkeys(("gage_eval", "gage_eval.box", "gage_eval.box.inside"), "")
    return packages | {name: text for name, text in files.items() if not name.endswith("__init__")}
