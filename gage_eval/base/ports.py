"""Ports of the loopback interface."""

import socket
import sys
from dataclasses import dataclass

from gage_eval.base.errors import InputError

LOOPBACK = "127.0.0.1"
# Where the viewer listens unless another port is named.
VIEWER_PORT = 4280


def is_free(port: int) -> bool:
    """Whether nothing answers at a port."""
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0


def free_port() -> int:
    """A port that nothing listens on. Another program may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def chosen_port(wanted: int | None, usual: int, option: str) -> int:
    """The port of a server that starts now.

    Args:
        wanted: what the user says; None for the usual one, or any free one where that is taken.
        usual: the server's usual port.
        option: the user's option, for the message.

    Raises:
        InputError: the wanted port is taken.
    """
    if wanted is not None and not is_free(wanted):
        raise InputError(f"port {wanted} is taken: give another {option}, or none for a free one.")
    return wanted or (usual if is_free(usual) else free_port())


@dataclass(frozen=True)
class HeldPort:
    """A port that other programs do not get until `release`, as `hold_port` gives it."""

    number: int
    _socket: socket.socket

    def release(self) -> None:
        """Give the port back. A server that listens on it keeps it."""
        self._socket.close()


def hold_port() -> HeldPort:
    """Keep a free port for a server that starts later, such as an engine that first imports its libraries for seconds.

    The server must set SO_REUSEADDR, as nearly all do. Only Linux lets it listen on a port that is
    held. Elsewhere the port is released at once, and another program may take it.
    """
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((LOOPBACK, 0))
    held = HeldPort(int(bound.getsockname()[1]), bound)
    if sys.platform != "linux":
        held.release()
    return held
