"""The GPUs of this machine: engines take free ones and hold them until they stop.

A GPU is held by a `flock` on a file named after it, which the kernel releases when its holder ends for any reason.
"""

import asyncio
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from gage_eval.base.errors import InputError

_LOOK_EVERY_S = 1.0
_NAME_WITHIN_S = 20.0
_UNSAFE = str.maketrans({"/": "-", ":": "-"})

_log = logging.getLogger(__name__)


def devices(env: Mapping[str, str]) -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        # CUDA reads the list up to the first number that does not exist; -1 hides all of them.
        return list(takewhile(lambda name: not name.startswith("-"), names))
    folder = Path("/proc/driver/nvidia/gpus")
    return [str(index) for index in range(len(list(folder.iterdir())))] if folder.is_dir() else []


def device_name(env: Mapping[str, str]) -> str | None:
    """What an engine computes on: the models of the GPUs, else of the processor; None where it is not known."""
    if (names := devices(env)) and (tool := shutil.which("nvidia-smi", path=env.get("PATH"))) is not None:
        command = [tool, "--query-gpu=name", "--format=csv,noheader", f"--id={','.join(names)}"]
        with suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(  # noqa: S603 - its own list of arguments, without a shell
                command, capture_output=True, text=True, check=True, timeout=_NAME_WITHIN_S
            ).stdout
            return ", ".join(line.strip() for line in told.splitlines())
    return processor_name()


def processor_name() -> str | None:
    """The model of this machine's processor; None where it is not known."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or None


def lock_folder() -> Path:
    """The folder of this machine with the lock files of its GPUs, for all users."""
    return Path(tempfile.gettempdir()) / "gage-eval-gpus"


@dataclass(frozen=True)
class NeededGPUs:
    """GPUs that an engine needs.

    Attributes:
        names: the GPUs that it may take, as CUDA_VISIBLE_DEVICES names them.
        count: how many it needs.
    """

    names: Sequence[str] = ()
    count: int = 0


class GPUs:
    """GPUs of this machine that the engines of one owner hold: a run, runs that follow each other, or a server.

    Engines of one owner take different GPUs while there are free ones, and otherwise share: a model and its judge can
    use one GPU. Engines of different owners never share. Use it from one event loop.

    Args:
        folder: the folder of the lock files; by default that of this machine.
        waiting: called once with a sentence, before `hold` waits.
    """

    def __init__(self, folder: Path | None = None, waiting: Callable[[str], None] = _log.warning) -> None:
        self._folder = folder or lock_folder()
        self._waiting = waiting
        self._locks: dict[str, int] = {}
        self._users = Counter[str]()

    async def hold(self, needed: NeededGPUs) -> list[str]:
        """Hold GPUs until `release`; waits while other owners hold too many.

        Raises:
            InputError: the machine has too few.
        """
        count, names = needed.count, needed.names
        if count > len(names):
            have = f"has {len(names)}" if names else "has none"
            raise InputError(
                f"the engine needs {count} GPUs and this machine {have}. Lower gpus, replicas, tensor_parallel_size or "
                "data_parallel_size."
            )
        told = False
        while len(taken := self._take(names, count)) < count:
            self.release(taken)
            if not told:
                told = True
                self._waiting(
                    f"{count} of this machine's {len(names)} GPUs are needed and too few are free; waiting for them."
                )
            await asyncio.sleep(_LOOK_EVERY_S)
        return taken

    def release(self, names: Iterable[str]) -> None:
        """Give GPUs back. Those that no engine of this owner uses any longer are free for others."""
        for name in names:
            self._users[name] -= 1
            if not self._users[name]:
                os.close(self._locks.pop(name))

    def _take(self, names: Sequence[str], count: int) -> list[str]:
        """Up to `count` GPUs: free ones first, then those with the fewest engines of this owner."""
        taken: list[str] = []
        for name in sorted(names, key=lambda name: self._users[name]):
            if len(taken) < count and (name in self._locks or self._lock(name)):
                self._users[name] += 1
                taken.append(name)
        return sorted(taken, key=names.index)

    def _lock(self, name: str) -> bool:
        import fcntl

        _make(self._folder)
        descriptor = _opened(self._folder / f"{name.translate(_UNSAFE)}.lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._locks[name] = descriptor
        return True


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o1777)
        # The umask took rights from the other users.
        folder.chmod(0o1777)
    except FileExistsError:
        return


def _opened(file: Path) -> int:
    """A descriptor of a lock file, for reading: a lock needs no more where another user made the file."""
    try:
        # Without O_CREAT, which Linux refuses for another user's file in a folder like /tmp (fs.protected_regular).
        return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        before = os.umask(0)
        try:
            return os.open(file, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        finally:
            os.umask(before)
