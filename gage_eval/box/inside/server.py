"""A warm interpreter that clones one harness per request, into new namespaces.

It never reads a request: it only hands its socket on. What it forks later therefore holds nothing of an earlier test.
"""

# Loaded once, so that programs need not load them.
import bisect  # noqa: F401
import gc
import json
import operator  # noqa: F401
import os
import select
import socket
import sys
from typing import NoReturn

from gage_eval.box.inside import kernel
from gage_eval.box.inside.harness import harness
from gage_eval.box.inside.place import Place, mounted, uncontained
from gage_eval.box.inside.wire import send

# The user of a program, as it sees it.
_INSIDE = 1000
_FLAGS = sum(kernel.NAMESPACES[name] for name in ("user", "pid", "mount", "ipc", "uts"))


def serve(control: socket.socket, *, contained: bool) -> NoReturn:
    """Until the control socket ends.

    A message with a descriptor, ``{"id"}``, asks for a harness on that socket. ``{"kill": id}`` ends one. ``{"id",
    "status", "cpu_s"}`` says that one has ended.
    """
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[int, int]] = {}
    while True:
        for ready in select.select([control.fileno(), *running], [], [])[0]:
            if ready in running:
                pid, name = running.pop(ready)
                os.close(ready)
                _, status, usage = os.wait4(pid, 0)
                cpu_s = usage.ru_utime + usage.ru_stime
                control.send(json.dumps({"id": name, "status": status, "cpu_s": cpu_s}).encode())
                continue
            try:
                data, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
            except ConnectionResetError:  # the host closed it with messages unread
                data = b""
            if not data:
                os._exit(0)
            message = json.loads(data)
            if "kill" in message:
                for pid, name in running.values():
                    if name == message["kill"]:
                        os.kill(pid, 9)
                continue
            channel = socket.socket(fileno=descriptors[0])
            try:
                pid = _start(control, channel, contained=contained)
            except OSError as error:
                control.send(json.dumps({"id": message["id"], "failed": str(error)}).encode())
            else:
                running[os.pidfd_open(pid)] = (pid, message["id"])
            channel.close()


def _start(control: socket.socket, channel: socket.socket, *, contained: bool) -> int:
    user, group = os.getuid(), os.getgid()
    pid = kernel.fork_into(_FLAGS) if contained else os.fork()
    if pid:
        return pid
    try:
        control.close()
        harness(channel, (lambda: _contained(user, group)) if contained else uncontained)
    except BaseException as error:  # noqa: BLE001
        send(channel, {"status": "box_error", "reason": "box", "text": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(1)


def _contained(user: int, group: int) -> Place:
    """A place in this process's new namespaces. Its user has the same number there in every slot."""
    maps = {"uid_map": f"{_INSIDE} {user} 1", "gid_map": f"{_INSIDE} {group} 1"}
    for name, text in {"setgroups": "deny", **maps}.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return mounted()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), contained=sys.argv[2] == "contained")
