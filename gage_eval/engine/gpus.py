"""GPUs of a machine that several processes share: each takes free ones and holds them until it ends.

A GPU is held by a `flock` on a file named after it, which the kernel releases when its holder ends for any reason.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gage_eval.base.errors import InputError

_LOOK_EVERY_S = 1.0
_UNSAFE = str.maketrans({"/": "-", ":": "-"})


def lock_folder() -> Path:
    """The folder of this machine with the lock files of its GPUs, for all users."""
    return Path(tempfile.gettempdir()) / "gage-eval-gpus"


@contextmanager
def hold_gpus(
    gpus: Sequence[str],
    count: int,
    *,
    folder: Path | None = None,
    waiting: Callable[[str], None] = lambda text: None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[list[str]]:
    """Hold free GPUs of this machine; waits while too few are free.

    Args:
        gpus: the GPUs that may be taken, as CUDA_VISIBLE_DEVICES names them.
        count: how many are needed.
        folder: the folder of the lock files; by default that of this machine.
        waiting: called once with a sentence, before waiting.
        check: called again and again while waiting; it may raise.

    Raises:
        InputError: the machine has too few.
    """
    if count > len(gpus):
        have = f"has {len(gpus)}" if gpus else "has none"
        raise InputError(f"the engine needs {count} GPUs and this machine {have}. Lower gpus or tensor_parallel_size.")
    place = folder or lock_folder()
    _make(place)
    told = False
    while True:
        with ExitStack() as held:
            taken: list[str] = []
            for gpu in gpus:
                if len(taken) < count and _take(place / f"{gpu.translate(_UNSAFE)}.lock", held):
                    taken.append(gpu)
            if len(taken) == count:
                yield taken
                return
        if not told:
            told = True
            waiting(f"{count} of this machine's {len(gpus)} GPUs are needed and too few are free; waiting for them.")
        check()
        time.sleep(_LOOK_EVERY_S)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o1777)
        # The umask took rights from the other users.
        folder.chmod(0o1777)
    except FileExistsError:
        return


def _take(file: Path, held: ExitStack) -> bool:
    import fcntl

    before = os.umask(0)
    try:
        # Opened for reading where another user made it: a lock needs no more.
        descriptor = os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    finally:
        os.umask(before)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    held.callback(os.close, descriptor)
    return True
