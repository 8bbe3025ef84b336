"""Ports of the loopback interface."""

import socket

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether nothing answers at a port."""
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0


def free_port() -> int:
    """A port that nothing listens on. Another program may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
