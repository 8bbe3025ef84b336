"""Slots in containers of bubblewrap: kernel namespaces, a root of read-only system folders, no network.

As root each slot has its own user id, since root is exempt from the limit of processes. As another user it is a user
namespace. Inside, the server makes namespaces for each program again.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import gage_eval.box.inside
from gage_eval.base.canonical import digest
from gage_eval.box.slot import ServerSlot, Slot, server_command, user_of
from gage_eval.box.types import BoxError

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
# The box's own, whatever an image has there. Those that a mount would make are closed to other users.
_FOLDERS = ("proc", "tmp", "run", "box", "harness", "harness/gage_eval", "harness/gage_eval/box")
_OWN = {*_FOLDERS, "dev", "sys"}
_INSIDE, _IMAGE = "/harness/gage_eval/box/inside", "/image"
_PATH = "/py/bin:/usr/local/bin:/usr/bin:/bin"
_READ_ONLY = ("--dev", "/dev", "--remount-ro", "/dev", "--remount-ro", "/")
_OF_USER = ("--proc", "/proc", "--unshare-user", "--uid", "1000", "--gid", "1000", *_READ_ONLY)


def bubblewrap_slot(number: int, root: Path | None = None) -> Slot:
    """A slot; ``root`` is an unpacked image with its own Python, otherwise it has this machine's /usr and interpreter.

    Raises:
        BoxError: the image has no Python.
    """
    if root is not None and not any(os.path.lexists(f"{root}{folder}/python3") for folder in _PATH.split(":")):
        raise BoxError(f"the root folder {root} of the image has no python3, which the box needs")
    return ServerSlot(
        lambda descriptor: _command(number, descriptor, root), {"PATH": os.environ.get("PATH", os.defpath)}
    )


def root_identity(root: Path) -> str:
    """Differs where an unpacked image differs: a digest of the names, sizes and times of all its files."""
    files: list[list[str | int]] = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            facts = path.lstat()
            files.append([str(path.relative_to(root)), facts.st_size, facts.st_mtime_ns])
    return digest(["root", *files])


def _command(number: int, descriptor: int, root: Path | None) -> list[str]:
    inside = str(Path(gage_eval.box.inside.__file__).parent)
    if root is None:
        box = [*_box(inside), *_this_machine()]
        python = [f"/py/bin/python{sys.version_info.major}.{sys.version_info.minor}", "-s", "-S"]
    else:
        box = [*_box(inside), *_image(root, str(root))]
        python = ["python3", "-s"]
    server = server_command(python, descriptor, contained=True)
    if os.geteuid() != 0:
        return [*box, *_OF_USER, *server]
    if root is None:
        return [*box, *_READ_ONLY, *_as_another_user(number, server)]
    # Nothing of an image runs as root: its box is made by the slot's user, within one of this machine.
    inner = [*_box(_INSIDE), *_image(root, _IMAGE), *_OF_USER, *server]
    outer = [*_box(inside), *_this_machine(), "--dir", _IMAGE, *_image(root, str(root), _IMAGE), *_READ_ONLY]
    return [*outer, *_as_another_user(number, inner)]


def _box(inside: str) -> list[str]:
    """New namespaces with the box's own folders and the harness, which is ``inside`` there where the box is made."""
    return [
        *("bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--clearenv", "--hostname", "box", "--chdir", "/"),
        *("--setenv", "PYTHONHASHSEED", "0", "--setenv", "PYTHONDONTWRITEBYTECODE", "1"),
        *("--setenv", "PYTHONPATH", "/harness", "--setenv", "PATH", _PATH),
        *(word for folder in _FOLDERS for word in ("--dir", f"/{folder}")),
        *("--ro-bind", inside, _INSIDE),
    ]


def _as_another_user(number: int, server: Sequence[str]) -> list[str]:
    # When root starts it, bubblewrap's own --proc covers parts of /proc; the kernel then allows no other /proc inside.
    mount = 'mount -t proc -o nosuid,nodev,noexec proc /proc && exec "$@"'
    user = user_of(number)
    drop = ["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    return ["sh", "-c", mount, "sh", "setpriv", f"--reuid={user}", f"--regid={user}", *drop, *server]


def _this_machine() -> list[str]:
    """Its programs and libraries, and this interpreter at /py, since its folder may be closed to other users."""
    system = [Path("/", name) for name in _SYSTEM if os.path.lexists(f"/{name}")]
    base = Path(sys.base_prefix).resolve()
    return [
        *(word for path in system for word in _shown(path, str(path), str(path))),
        *("--dir", "/etc", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--ro-bind", str(base), "/py", "--setenv", "LD_LIBRARY_PATH", "/py/lib"),
    ]


def _image(root: Path, source: str, target: str = "") -> list[str]:
    """All of an unpacked image, whose root folder is ``source`` where the box is made."""
    paths = [path for path in sorted(root.iterdir()) if path.name not in _OWN]
    return [word for path in paths for word in _shown(path, f"{source}/{path.name}", f"{target}/{path.name}")]


def _shown(path: Path, source: str, target: str) -> list[str]:
    """A folder or file in the box. A link leads where it leads in the box."""
    if path.is_symlink():
        return ["--symlink", os.readlink(path), target]
    return ["--ro-bind", source, target]
