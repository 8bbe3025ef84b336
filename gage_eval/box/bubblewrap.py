"""Slots in containers of bubblewrap: kernel namespaces, a root of read-only system folders, no network.

As root each slot has its own user id, since root is exempt from the limit of processes. As another user it is a user
namespace. Inside, the server makes namespaces for each program again.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import gage_eval.box.inside
from gage_eval.box.slot import ServerSlot, Slot, server_command, user_of

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Those that a mount would make are closed to other users.
_FOLDERS = ("/proc", "/tmp", "/run", "/box", "/etc", "/harness", "/harness/gage_eval", "/harness/gage_eval/box")  # noqa: S108


def bubblewrap_slot(number: int, root: Path | None = None) -> Slot:
    """A slot; ``root`` is an unpacked image, otherwise it sees this machine's /usr."""
    return ServerSlot(
        lambda descriptor: _command(number, descriptor, root), {"PATH": os.environ.get("PATH", os.defpath)}
    )


def _command(number: int, descriptor: int, root: Path | None) -> list[str]:
    command = [
        *("bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--clearenv", "--hostname", "box", "--chdir", "/"),
        *("--setenv", "PYTHONHASHSEED", "0", "--setenv", "PYTHONDONTWRITEBYTECODE", "1"),
        *("--setenv", "PYTHONPATH", "/harness", "--setenv", "LD_LIBRARY_PATH", "/py/lib"),
    ]
    for folder in _FOLDERS:
        command += ["--dir", folder]
    command += [*_system(), *_interpreter(), "--dev", "/dev"]
    python = f"/py/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    server = server_command([python, "-s", "-S"], descriptor, contained=True)
    if os.geteuid() == 0:
        return [*command, "--remount-ro", "/dev", "--remount-ro", "/", *_as_another_user(number, server)]
    command += ["--proc", "/proc", "--unshare-user", "--uid", "1000", "--gid", "1000"]
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/", *server]


def _as_another_user(number: int, server: Sequence[str]) -> list[str]:
    # When root starts it, bubblewrap's own --proc covers parts of /proc; the kernel then allows no other /proc inside.
    mount = 'mount -t proc -o nosuid,nodev,noexec proc /proc && exec "$@"'
    user = user_of(number)
    drop = ["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    return ["sh", "-c", mount, "sh", "setpriv", f"--reuid={user}", f"--regid={user}", *drop, *server]


def _system() -> list[str]:
    """The programs and libraries of this machine."""
    arguments = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", f"usr/{name}", str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _interpreter() -> list[str]:
    """This interpreter at /py, since its folder may be closed to other users, and the harness."""
    inside = Path(gage_eval.box.inside.__file__).parent
    base = Path(sys.base_prefix).resolve()
    return ["--ro-bind", str(base), "/py", "--ro-bind", str(inside), "/harness/gage_eval/box/inside"]
