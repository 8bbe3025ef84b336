"""Messages between the processes of the box: four bytes of length, then JSON."""

import base64
import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

LARGEST = 16 << 20
"""Bytes of a message of the answer."""
ANY = 1 << 31
"""Of one whose sender is trusted."""
LONGEST_TEXT = 500
"""Characters of a sentence for people."""
STATUS_OF_END: Mapping[str, Any] = {
    "cpu": "timed_out",
    "idle": "timed_out",
    "starved": "box_error",
    "memory": "out_of_memory",
    "output": "crashed",
    "files": "crashed",
}
"""The status of a program that was ended, by the reason."""


class Channel(Protocol):
    """What messages need of a socket."""

    def recv(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""

    def sendall(self, data: bytes, /) -> None:
        """Write all of it."""

    def close(self) -> None:
        """Close this end."""


class NoMessage(Exception):
    """What the other side wrote is not a message."""


def send(channel: Channel, message: Mapping[str, Any]) -> None:
    """Send a message as a whole."""
    channel.sendall(packed(message))


def packed(message: Mapping[str, Any]) -> bytes:
    """The bytes of a message."""
    data = json.dumps(message).encode()
    return struct.pack("I", len(data)) + data


def receive(channel: Channel, largest: int = LARGEST) -> dict[str, Any]:
    """Wait for a message.

    Raises:
        EOFError: the other side has ended.
        NoMessage: it wrote something else.
    """
    (size,) = struct.unpack("I", _exactly(channel, 4))
    if size > largest:
        raise NoMessage(f"{size} bytes")
    return parsed(_exactly(channel, size))


def parsed(data: bytes) -> dict[str, Any]:
    """The message in the bytes that follow its length."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NoMessage(str(error)) from None
    if type(message) is not dict:
        raise NoMessage("not an object")
    return message


def command_reply(
    code: int | None, streams: Iterable[bytes | bytearray], reason: str, cpu_s: float, wall_s: float, peak_mb: float
) -> dict[str, Any]:
    """What came of a command; `gage_eval.box.types.Ran` with its output in base64."""
    stdout, stderr = (base64.b64encode(text).decode() for text in streams)
    reply = {"exit": None if reason else code, "stdout": stdout, "stderr": stderr, "reason": reason}
    return reply | {"cpu_s": round(cpu_s, 3), "wall_s": round(wall_s, 3), "peak_mb": round(peak_mb, 1)}


def setup_failure(reason: str, code: int | None, stderr: bytes | bytearray) -> dict[str, Any]:
    """The result where the setup of a box failed: the last line that it said."""
    last = stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    text = f"{reason or f'exit {code}'}: {last}"[:LONGEST_TEXT]
    return {"status": "box_error", "reason": "setup", "text": text}


def _exactly(channel: Channel, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
