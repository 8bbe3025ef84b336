"""The HTTP API of a container engine at its unix socket. Docker's API is Podman's, too."""

import asyncio
import http.client
import json
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gage_eval.box.types import BoxError

EngineName: TypeAlias = Literal["docker", "podman"]
ENGINES: tuple[EngineName, ...] = ("docker", "podman")

_VERSION = "/v1.41"
_CALL_S = 120.0
_PROBE_S = 10.0
# What can stand in an address. Names come from data.
_IMAGE = re.compile(r"\w[\w.:/@-]*", re.ASCII)
_HEADER_BYTES = 8
_LONGEST_REFUSAL = 1 << 16
_SWITCHING, _OK, _ERROR, NOT_FOUND = 101, 200, 400, 404
# The variables with which the programs of the engines find it, and where it is without them.
_VARIABLES = {"docker": "DOCKER_HOST", "podman": "CONTAINER_HOST"}
_START = {
    "docker": "apt-get install docker.io, then systemctl start docker",
    "podman": "systemctl start podman.socket, or podman system service --time=0",
}


class EngineError(BoxError):
    """The engine refused a call. `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Engine:
    """Docker or Podman."""

    def __init__(self, name: EngineName, address: Path | None = None) -> None:
        self.name = name
        self.address = address or _address(name)

    def problem(self) -> str | None:
        """What keeps it from running boxes, as one sentence; None if it can."""
        if self.name == "podman" and not self.address.exists() and shutil.which("podman") is None:
            return "Podman is not installed: apt-get install podman runc"
        try:
            info = self.call("GET", "/info", timeout_s=_PROBE_S)
        except PermissionError:
            return f"this user may not use {self.address}: usermod -aG docker USER, or run the engine as this user"
        except (OSError, http.client.HTTPException, BoxError):
            return f"{self.name} does not answer at {self.address}: {_START[self.name]}"
        missing = [what for what in ("MemoryLimit", "PidsLimit") if info.get(what) is False]
        if missing:
            return f"{self.name} has no {' and no '.join(missing)} here: this user needs cgroups v2 with delegation"
        return None

    def call(self, method: str, path: str, body: Any = None, *, timeout_s: float = _CALL_S) -> Any:
        """Call the API and wait. Returns the JSON of the answer.

        Raises:
            EngineError: the engine refuses.
            OSError: it does not answer.
        """
        connection = _Connection(self.address, timeout_s)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, _VERSION + path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.status >= _ERROR:
            raise EngineError(response.status, _message(data))
        return json.loads(data) if data.strip() else None

    async def acall(self, method: str, path: str, body: Any = None) -> Any:
        """`call` in a thread."""
        return await asyncio.to_thread(self.call, method, path, body)

    def image_id(self, image: str) -> str | None:
        """The hash of an image's content; None if the engine does not know it."""
        if not _IMAGE.fullmatch(image) or ".." in image:
            return None
        try:
            return str(self.call("GET", f"/images/{image}/json")["Id"])
        except (EngineError, OSError):
            # Its programs end with what the engine says.
            return None

    @asynccontextmanager
    async def container(self, config: Mapping[str, Any]) -> AsyncIterator[str]:
        """A new container, which is removed with the context, even where that is cancelled. It is not started."""
        creation = asyncio.ensure_future(self.acall("POST", "/containers/create", config))
        try:
            yield (await asyncio.shield(creation))["Id"]
        finally:
            made = (await creation)["Id"]
            # The engine removes it, too, when it ends.
            with suppress(EngineError):
                await self.acall("DELETE", f"/containers/{made}?force=true&v=true")

    @asynccontextmanager
    async def stream(self, path: str, body: Any = None) -> AsyncIterator["Stream"]:
        """The standard streams of a container or of a command in it."""
        reader, writer = await asyncio.open_unix_connection(str(self.address))
        try:
            content = b"" if body is None else json.dumps(body).encode()
            head = (
                f"POST {_VERSION}{path} HTTP/1.1\r\nHost: box\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(content)}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
            )
            writer.write(head.encode() + content)
            answer = await reader.readuntil(b"\r\n\r\n")
            status = int(answer.split(maxsplit=2)[1])
            if status not in (_SWITCHING, _OK):
                raise EngineError(status, _message(await reader.read(_LONGEST_REFUSAL)))
            yield Stream(reader, writer)
        except asyncio.IncompleteReadError:
            raise BoxError(f"{self.name} closed the connection") from None
        finally:
            writer.close()


class Stream:
    """Stdin to write, stdout and stderr to read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.stdin = reader, writer

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece: 1 and bytes of stdout, or 2 and bytes of stderr. None at the end."""
        try:
            header = await self._reader.readexactly(_HEADER_BYTES)
            return header[0], await self._reader.readexactly(int.from_bytes(header[4:], "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, address: Path, timeout_s: float) -> None:
        super().__init__("box", timeout=timeout_s)
        self._address = address

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._address))


def _address(name: EngineName) -> Path:
    url = os.environ.get(_VARIABLES[name], "")
    if url.startswith("unix://"):
        return Path(url.removeprefix("unix://"))
    if name == "docker":
        return Path("/var/run/docker.sock")
    own = Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}"), "podman/podman.sock")
    return own if own.exists() else Path("/run/podman/podman.sock")


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"]).strip()
    except (ValueError, KeyError, TypeError):
        return data.decode("utf-8", "replace").strip()[:500]
