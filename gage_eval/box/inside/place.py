"""The folders of a box, and what every program in it starts with."""

import contextlib
import os
import resource
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gage_eval.box.inside import kernel

# Files that a program may have open at once.
_OPEN_FILES = 256


@dataclass(frozen=True)
class Place:
    """Where programs run. Without containment nothing of this keeps a program from anything."""

    work: str = "/box"
    temporary: str = "/tmp"  # noqa: S108
    is_contained: bool = True
    path: str = "/py/bin:/usr/local/bin:/usr/bin:/bin"
    is_ours: bool = True
    """Whether the file systems are the harness's own, so that it can set their size."""
    folder: str | None = None
    """Where commands run, if not in `work`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """That programs have, too."""

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The variables of a program."""
        mine = {
            "PATH": self.path,
            "HOME": self.work,
            "TMPDIR": self.temporary,
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
        }
        libraries = os.environ.get("LD_LIBRARY_PATH")
        return {**mine, **({"LD_LIBRARY_PATH": libraries} if libraries else {}), **self.variables, **extra}


def mounted() -> Place:
    """File systems of this namespace: one in memory for all that programs write, and their own processes."""
    kernel.mount("tmpfs", "/run", "tmpfs", kernel.NOSUID | kernel.NODEV, "size=1m,nr_inodes=16,mode=0755")
    for name, target in (("box", "/box"), ("tmp", "/tmp"), ("shm", "/dev/shm")):  # noqa: S108
        os.mkdir(f"/run/{name}", 0o700)
        kernel.mount(f"/run/{name}", target, "", kernel.BIND)
    kernel.mount("proc", "/proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
    return Place()


def set_size(limits: Mapping[str, Any]) -> None:
    """Bound what programs may write, in sum. The folders of `mounted` are files, too."""
    options = f"size={limits['files_mb']}m,nr_inodes={limits['files'] + 4}"
    kernel.mount("tmpfs", "/run", "", kernel.REMOUNT | kernel.NOSUID | kernel.NODEV, options)


def uncontained() -> Place:
    """A new folder, and nothing else."""
    work = os.path.realpath(tempfile.mkdtemp(prefix="gage-box-"))
    return Place(work, work, is_contained=False, path=os.defpath)


def confine(place: Place, limits: Mapping[str, Any]) -> None:
    """Bound this process and its children, without return. What they use in sum is for the harness to watch."""
    megabyte = 1 << 20
    seconds = int(limits["cpu_s"]) + 2
    bounds = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_DATA: int(limits["memory_mb"]) * megabyte,
        resource.RLIMIT_FSIZE: int(limits["files_mb"]) * megabyte,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if place.is_contained:
        # The harness is a process of the same user.
        bounds[resource.RLIMIT_NPROC] = int(limits["processes"]) + 1
    for what, bound in bounds.items():
        resource.setrlimit(what, (bound, bound))
    if place.is_contained:
        kernel.give_up_privileges()


def execute(argv: Sequence[str], request: Mapping[str, Any], place: Place) -> NoReturn:
    """Become a command, within the limits and with the variables of a request."""
    os.closerange(3, 1024)
    confine(place, request["limits"])
    os.chdir(place.folder or place.work)
    try:
        os.execvpe(argv[0], list(argv), place.environment(request["env"]))  # noqa: S606
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(127)


def write_file(place: Place, path: str, content: bytes) -> None:
    """Write a file below the work folder, in new folders where they are missing.

    Raises:
        OSError, ValueError: the path leads out of the folder, or through a link.
    """
    *folders, name = _parts(path)
    folder = _open_folder(place.work, folders, make=True)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(name, flags, 0o644, dir_fd=folder), "wb") as file:
            file.write(content)
    finally:
        os.close(folder)


def read_file(place: Place, path: str, largest: int) -> bytes:
    """The content of a regular file below the work folder.

    Raises:
        OSError, ValueError: there is none, a link is in its path, or it is larger.
    """
    *folders, name = _parts(path)
    folder = _open_folder(place.work, folders, make=False)
    try:
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError(f"{path!r} is not a regular file")
            content = file.read(largest + 1)
    finally:
        os.close(folder)
    if len(content) > largest:
        raise ValueError(f"{path!r} has more than {largest} bytes")
    return content


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} is not a path below the work folder")
    return parts


def _open_folder(work: str, folders: list[str], *, make: bool) -> int:
    """A descriptor of a folder. Each step refuses links, so that a program cannot redirect it."""
    folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    for name in folders:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder
