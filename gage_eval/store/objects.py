"""The basic reads and writes below the store: named objects that are created once; here as files in a folder."""

import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import StoreError

T = TypeVar("T")

_COMPONENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=+-]*")
_PATH = re.compile(rf"{_COMPONENT.pattern}(?:/{_COMPONENT.pattern})*")
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_TEMPORARY = ".tmp-"
STAGING = "staging"
LOCKS = "locks"


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Path below the store, size in bytes, time of last change in seconds since the epoch."""

    path: str
    size: int
    mtime: float


class Objects(Protocol):
    """Objects of a store, each named by a path of ``/``-separated plain names.

    Every method raises `StoreError` when the store fails.
    """

    url: str
    read_only: bool

    @property
    def local_root(self) -> Path | None:
        """The folder that holds the objects, None when they are not files."""

    def get(self, path: str) -> bytes:
        """The bytes of an object. Raises `FileNotFoundError` when it is not there."""

    def get_range(self, path: str, start: int, stop: int) -> bytes:
        """The bytes of an object from ``start`` up to ``stop``, or fewer where it ends. Raises as `get`."""

    def exists(self, path: str) -> bool:
        """Whether the object is there."""

    def info(self, path: str) -> ObjectInfo | None:
        """Size and age of an object, None when it is not there."""

    def renew(self, path: str) -> bool:
        """Make an object as young as a new one, so that garbage collection spares it. False: it is not there."""

    def create(self, path: str, data: bytes | bytearray) -> bool:
        """Create an object, whole or not at all. False: it exists already and stays as it is."""

    def create_file(self, path: str, local: Path) -> bool:
        """`create` from a local file, which may become the object itself: do not write to it afterwards."""

    def swap(self, path: str, data: bytes, *, expected: bytes | None) -> bool:
        """Replace ``expected`` with ``data`` (None means absent). False if the object holds something else."""

    def replace(self, path: str, data: bytes, *, private: bool = False) -> None:
        """Write ``data`` in any case: for files of one writer, such as a run's record.

        Args:
            private: only the writer's user may read it, where the store is a folder.
        """

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects below a folder (``""``: all), sorted by path.

        What others put there under names that no object has, such as ``.DS_Store``, is left out.
        """

    def leftovers(self) -> Iterator[ObjectInfo]:
        """Leftovers of killed writers; never part of an object."""

    def delete(self, path: str) -> None:
        """Remove an object or a leftover. Does nothing when it is not there."""

    def stop_waiting(self) -> None:
        """Stop waiting, in all threads, for a store that does not answer."""


def safe_name(name: str) -> str:
    """Check that a name is one plain component of a path, and return it.

    Raises:
        StoreError: it is empty, a dot name, or has a character that could lead elsewhere.
    """
    if not _COMPONENT.fullmatch(name):
        raise StoreError(f"'{name[:80]}' cannot name an object of the store: use letters, digits and . _ = + - only.")
    return name


def safe_path(path: str) -> str:
    """Check that every component of a path is plain (`safe_name`), and return it."""
    for component in path.split("/"):
        safe_name(component)
    return path


def is_plain(text: str) -> bool:
    """Whether an object may have this path (`safe_path`)."""
    return _PATH.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether the text is a sha256 in hex."""
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def digests_in(data: bytes) -> list[str]:
    """Every sha256 in hex that a text holds."""
    return [digest.decode() for digest in _DIGEST.findall(data)]


def refuse_write(url: str) -> StoreError:
    """The error for a write to a store that was opened read-only."""
    return StoreError(f"store {url} is read-only: give another one with --store.")


def read_if_there(objects: Objects, path: str) -> bytes | None:
    """The content of an object; None where there is none."""
    with suppress(FileNotFoundError):
        return objects.get(path)
    return None


class LocalObjects:
    """Objects as files below a folder.

    A file is written under a temporary name in the same folder, synced, and linked to its name, which fails when the
    name is taken. So no object is ever seen in part, even if its writer is killed. Folders are not synced: after a
    power failure a name may be missing (its content is computed again), but no file has half its bytes.
    """

    def __init__(self, root: Path, url: str, *, read_only: bool = False, lock_folder: str = LOCKS) -> None:
        self.url = url
        self.read_only = read_only
        self._root = root
        self._locks = root / lock_folder

    @property
    def local_root(self) -> Path:
        return self._root

    def get(self, path: str) -> bytes:
        with self._explained(path):
            return self._file(path).read_bytes()

    def get_range(self, path: str, start: int, stop: int) -> bytes:
        with self._explained(path), self._file(path).open("rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def exists(self, path: str) -> bool:
        with self._explained(path):
            return self._file(path).is_file()

    def info(self, path: str) -> ObjectInfo | None:
        with self._explained(path):
            return next(self._info(self._file(path)), None)

    def renew(self, path: str) -> bool:
        target = self._file(path)
        with self._writing(path):
            try:
                os.utime(target)
            except FileNotFoundError:
                return False
            except OSError as error:
                # Another user's file, or a disk that cannot be written: its age cannot be changed.
                if error.errno not in (errno.EPERM, errno.EACCES, errno.EROFS):
                    raise
                return target.is_file()
            return True

    def create(self, path: str, data: bytes | bytearray) -> bool:
        target = self._file(path)
        with self._writing(path):
            if target.exists():
                return False
            with self._temporary(target, data) as temporary:
                return _link(temporary, target)

    def create_file(self, path: str, local: Path) -> bool:
        target = self._file(path)
        with self._writing(path):
            if target.exists():
                return False
            # It may have been staged long ago; its age counts from the commit.
            os.utime(local)
            _sync(local)
            try:
                return in_folder(target.parent, lambda: _link(local, target))
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EPERM):
                    raise
            # The staging folder is on another file system: copy to this one first.
            with self._temporary(target, b"") as temporary:
                shutil.copyfile(local, temporary)
                _sync(temporary)
                return _link(temporary, target)

    def swap(self, path: str, data: bytes, *, expected: bytes | None) -> bool:
        import fcntl

        if expected is None:
            return self.create(path, data)
        target = self._file(path)
        with self._writing(path):
            guard = self._locks / f"swap-{sha256_hex(path.encode())[:16]}.lock"
            guard.parent.mkdir(parents=True, exist_ok=True)
            with guard.open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not target.is_file() or target.read_bytes() != expected:
                    return False
                with self._temporary(target, data) as temporary:
                    temporary.replace(target)
                return True

    def replace(self, path: str, data: bytes, *, private: bool = False) -> None:
        target = self._file(path)
        with self._writing(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._temporary(target, data, private=private) as temporary:
                temporary.replace(target)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        skipped = {self._locks, self._root / STAGING}
        with self._explained(prefix):
            for file in _walk(self._file(prefix) if prefix else self._root):
                if is_plain(file.relative_to(self._root).as_posix()) and skipped.isdisjoint(file.parents):
                    yield from self._info(file)

    def leftovers(self) -> Iterator[ObjectInfo]:
        staging = self._root / STAGING
        with self._explained(""):
            for file in _walk(self._root):
                path = file.relative_to(self._root).as_posix()
                is_temporary = file.name.startswith(_TEMPORARY) and is_plain(path.rpartition("/")[0])
                if is_temporary or (staging in file.parents and is_plain(path)):
                    yield from self._info(file)

    def delete(self, path: str) -> None:
        if self.read_only:
            raise refuse_write(self.url)
        target = self._root.joinpath(path)
        if target.name.startswith(_TEMPORARY):
            safe_path(path.rpartition("/")[0])
        else:
            safe_path(path)
        with self._explained(path):
            target.unlink(missing_ok=True)
        for folder in target.parents:
            if folder == self._root:
                break
            try:
                folder.rmdir()
            except OSError:
                break  # Not empty, or removed by another process: the folders above are not ours to judge.

    def stop_waiting(self) -> None:
        """A folder answers at once."""

    def _file(self, path: str) -> Path:
        return self._root.joinpath(safe_path(path))

    def _info(self, file: Path) -> Iterator[ObjectInfo]:
        with suppress(FileNotFoundError):  # deleted after the listing
            stat = file.stat()
            yield ObjectInfo(file.relative_to(self._root).as_posix(), stat.st_size, stat.st_mtime)

    @contextmanager
    def _temporary(self, target: Path, data: bytes | bytearray, *, private: bool = False) -> Iterator[Path]:
        """A synced file with a unique name next to ``target``, removed afterwards."""
        temporary = target.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
        try:
            _write(temporary, data, mode=0o600 if private else 0o666)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        if self.read_only:
            raise refuse_write(self.url)
        with self._explained(path):
            yield

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        with explain_os_errors(self.url, path):
            yield


@contextmanager
def explain_os_errors(url: str, path: str) -> Iterator[None]:
    """Turn an operating system's error into a `StoreError` with advice. `FileNotFoundError` passes through.

    Args:
        url: the store, as named by the user.
        path: the object in use; empty for the store's folder itself.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = f"{path}: {error.strerror or error}" if path else str(error.strerror or error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            text = "has no space left on its device: free some space and run again; nothing committed is lost."
        elif error.errno in (errno.EROFS, errno.EACCES):
            text = f"is read-only or not yours ({problem}): give another one with --store."
        elif error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            text = f"is on a file system without hard links ({problem}): put it on another one."
        else:
            text = f"cannot be used ({problem}): give another one with --store."
        raise StoreError(f"store {url} {text}") from error


def _walk(folder: Path) -> Iterator[Path]:
    """Every file below a folder, by path in the order of S3; links to folders are not followed."""
    try:
        with os.scandir(folder) as entries:
            # A folder sorts by its name followed by a slash.
            names = sorted(f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name.endswith("/"):
            yield from _walk(folder / name[:-1])
        else:
            yield folder / name


def _write(file: Path, data: bytes | bytearray, *, mode: int) -> None:
    """Write and sync a new file."""

    def create(path: str, flags: int) -> int:
        return os.open(path, flags, mode)

    with in_folder(file.parent, lambda: open(file, "xb", opener=create)) as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def in_folder(folder: Path, work: Callable[[], T]) -> T:
    """Do work that needs a folder; create the folder again if another process just removed it because it was empty."""
    for last in (False, False, True):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return work()
        except FileNotFoundError:
            if last:
                raise
    raise AssertionError("the last attempt returns or raises")


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True
