"""The harness as the first process of a container, which ends with it. Its channel is stdin and stdout."""

import os
import sys

from gage_eval.box.inside.harness import harness
from gage_eval.box.inside.place import Place
from gage_eval.box.inside.wire import send


class Streams:
    """What the harness needs of a socket, over two descriptors."""

    def __init__(self) -> None:
        self._reads, self._writes = os.dup(0), os.dup(1)

    def recv(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        return os.read(self._reads, size)

    def sendall(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._writes, rest) :]

    def close(self) -> None:
        """Close both."""
        os.close(self._reads)
        os.close(self._writes)


def serve() -> None:
    """Serve one request."""
    channel = Streams()
    try:
        harness(channel, _place)
    except BaseException as error:  # noqa: BLE001
        send(channel, {"status": "box_error", "reason": "box", "text": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(1)


def _place() -> Place:
    """The container's file system in memory, whose size the engine has set; or all of it."""
    if sys.argv[-1] == "writable":
        # Podman makes it 555, and root has no capability here.
        os.chmod("/", 0o755)  # noqa: S103
        return Place("/", is_ours=False, folder=os.getcwd(), variables=dict(os.environ))
    place = Place("/tmp/box", path=os.environ.get("PATH", os.defpath), is_ours=False)  # noqa: S108
    os.mkdir(place.work, 0o700)
    return place
