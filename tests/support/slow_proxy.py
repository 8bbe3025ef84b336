"""A proxy in front of a server that is slow: each answer comes some seconds late."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def slow_proxy(port: int, delay_s: float) -> Iterator[int]:
    """The port of a proxy to a port of this machine, which holds back all that the server sends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, port, delay_s), daemon=True).start()
        yield int(listener.getsockname()[1])


def _serve(listener: socket.socket, port: int, delay_s: float) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", port))
            for source, sink, wait_s in ((client, server, 0.0), (server, client, delay_s)):
                threading.Thread(target=_copy, args=(source, sink, wait_s), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket, wait_s: float) -> None:
    with suppress(OSError), source, sink:
        while data := source.recv(1 << 16):
            time.sleep(wait_s)
            sink.sendall(data)
