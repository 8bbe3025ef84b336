"""Messages between the processes of the box: four bytes of length, then JSON."""

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

LARGEST = 64 << 20
"""Bytes of a message."""


class NoMessage(Exception):
    """What the other side wrote is not a message."""


def send(channel: socket.socket, message: Mapping[str, Any]) -> None:
    """Send a message as a whole."""
    channel.sendall(packed(message))


def packed(message: Mapping[str, Any]) -> bytes:
    """The bytes of a message."""
    data = json.dumps(message).encode()
    return struct.pack("I", len(data)) + data


def receive(channel: socket.socket, largest: int = LARGEST) -> dict[str, Any]:
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


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
