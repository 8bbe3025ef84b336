"""Paths of files that configs and commands name."""

import glob
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOLCK, EOPNOTSUPP
from pathlib import Path

from gage_eval.base.errors import InputError, closest, visible

# How often a wait for a lock that may be given up looks at it.
_LOOK_AT_LOCK_S = 0.1
# Bytes of one name in a path, on all usual file systems.
_LONGEST_NAME = 255
_SHOWN = 60


def local_path(path: str, base_dir: Path) -> Path:
    """A path as people write it: ``~`` is the home folder, and a relative one starts from ``base_dir``.

    Raises:
        InputError: the home folder does not exist, or no file can have this path.
    """
    try:
        place = base_dir / Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"'{path}': there is no home folder '{path.partition('/')[0]}'.") from None
    if "\0" in path or max(len(part.encode(errors="replace")) for part in ("", *place.parts)) > _LONGEST_NAME:
        raise InputError(
            f"'{visible(path[:_SHOWN])}…' cannot be a path: it has a null byte, or a name over {_LONGEST_NAME} bytes."
        )
    return place


def is_folder(path: str, base_dir: Path) -> bool:
    """Whether a path as people write it names a folder; not if it cannot be a path, such as a name that is too long."""
    try:
        return local_path(path, base_dir).is_dir()
    except (InputError, OSError):
        return False


def closest_file(file: Path, suffixes: tuple[str, ...] = ()) -> str:
    """A sentence about the file with the most similar name in the folder of one that is not there; empty without one.

    Args:
        file: the file that is not there.
        suffixes: endings of the files that are meant; all by default.
    """
    if not os.path.isdir(file.parent):
        return f" There is no folder '{file.parent}' either."
    try:
        with os.scandir(file.parent) as entries:
            files = [entry.name for entry in entries if entry.is_file()]
            names = sorted(name for name in files if not suffixes or name.endswith(suffixes))
    except OSError:
        return ""  # the folder can be entered, but not listed
    return closest(file.name, names)


def folder_of(path: Path) -> Path:
    """The folder of a file; for a pattern the folder above all its files."""
    while glob.has_magic(str(path.parent)):
        path = path.parent
    return path.parent


def write_new(file: Path, text: str) -> None:
    """Write a file that is not there yet, and the folders it needs.

    Raises:
        InputError: it is there already, or cannot be written.
    """
    try:
        _write(file, text, "x")
    except FileExistsError as error:
        raise InputError(f"'{file}' is there already; choose another name, or remove it.") from error


def write_text(file: Path, text: str) -> None:
    """Write a file and the folders it needs. An existing file is replaced.

    Raises:
        InputError: it cannot be written.
    """
    _write(file, text, "w")


def _write(file: Path, text: str, mode: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open(mode, encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        if error.filename == str(file):
            raise
        raise InputError(f"'{file}' cannot be written: '{error.filename}' is a file, not a folder.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"'{file}' cannot be written: {getattr(error, 'strerror', None) or error}.") from error


@contextmanager
def locked(file: Path, check: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock of a file, which is made for that; the kernel frees it when its holder ends for any reason.

    It is opened again each time, so that two threads exclude each other too. On a file system without locks (some
    network mounts) nothing is locked: work may be done twice there, with no other harm.

    Args:
        file: the file.
        check: called again and again while another holds the lock. If it raises, the wait ends.

    Raises:
        OSError: the file cannot be made or locked.
    """
    import fcntl

    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        try:
            if check is None:
                fcntl.flock(stream, fcntl.LOCK_EX)
            else:
                _wait_for_lock(stream.fileno(), check)
        except OSError as error:
            if error.errno not in (ENOLCK, EOPNOTSUPP):
                raise
        yield


def _wait_for_lock(file: int, check: Callable[[], None]) -> None:
    import fcntl

    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            check()
            time.sleep(_LOOK_AT_LOCK_S)
        else:
            return


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Context of a draft that becomes the folder at its end: it is there as a whole, or not at all.

    Raises:
        InputError: the folder is there already or cannot be written.
    """
    taken = InputError(f"'{folder}' is there already; choose another folder with --to, or remove it.")
    if folder.exists():
        raise taken
    draft = folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
        yield draft
        draft.chmod(0o755)
        os.rename(draft, folder)
    except FileExistsError:
        raise taken from None
    except OSError as error:
        raise InputError(f"'{folder}' cannot be written: {error.strerror}.") from error
    finally:
        if draft != folder:
            shutil.rmtree(draft, ignore_errors=True)
