"""Files of data: found, opened, unpacked, and read within limits."""

import csv
import glob
import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gage_eval.base.errors import InputError, closest
from gage_eval.base.files import local_path
from gage_eval.base.hashing import file_digest

MAX_BYTES = 64 * 1024 * 1024
"""The longest line, row, cell or single-record file that is read."""


MAX_DOCUMENT = 512 * 1024 * 1024
"""The longest JSON document that is read as a whole. A small packed file may unpack to any size."""


_BUFFER = 1024 * 1024


_COMPRESSED = frozenset({".gz", ".bz2", ".xz", ".zst"})


def stem(path: str) -> str:
    """A file's name without its folder, its ending and a compression's ending.

    >>> stem("s3://bucket/test/agronomy.csv.gz")
    'agronomy'
    """
    name = Path(file_name_of(path))
    return name.with_suffix("").stem if name.suffix.lower() in _COMPRESSED else name.stem


def file_name_of(path: str) -> str:
    """A file's name without its folder.

    >>> file_name_of("s3://bucket/test/agronomy.csv.gz")
    'agronomy.csv.gz'
    """
    return Path(urlsplit(path).path if "://" in path else path).name


def find_files(path: str, base_dir: Path) -> list[str]:
    """The files a path, an address or a glob pattern names, sorted.

    Patterns are followed on file systems that list folders (``s3://``); an ``http(s)://`` address is one file.

    Raises:
        InputError: no file is there; the message names the closest file of that folder.
    """
    if "://" in path:
        return _find_remote(path)
    full = local_path(path, base_dir)
    try:
        return _find_local(path, full, base_dir)
    except OSError as error:
        raise InputError(f"'{path}' cannot be searched: {error.strerror}.") from error


def _find_local(path: str, full: Path, base_dir: Path) -> list[str]:
    if full.is_file():
        return [str(full)]
    if glob.has_magic(path):
        files = matching_files(path, base_dir)
        if not files:
            raise InputError(f"no file matches '{path}'.")
        return files
    if full.is_dir():
        raise InputError(f"'{path}' is a folder; name its files, as '{path.rstrip('/')}/*.jsonl'.")
    names = [entry.name for entry in full.parent.iterdir()] if full.parent.is_dir() else []
    raise InputError(f"no file '{path}'.{closest(full.name, names)}")


def matching_files(pattern: str, base_dir: Path) -> list[str]:
    """The files on this machine that a glob pattern matches, sorted.

    A file that is named by itself may be a link. What a pattern matches was put there by the folder's author, and
    may lead anywhere.

    Raises:
        InputError: a match is a link out of the folder that the pattern names.
    """
    steps = local_path(pattern, Path()).parts
    plain = next(index for index, step in enumerate([*steps, "*"]) if glob.has_magic(step))
    folder = base_dir.joinpath(*steps[:plain]).resolve()
    inside: dict[Path, bool] = {}
    files = []
    for name in sorted(glob.glob(str(Path(*steps)), root_dir=base_dir, recursive=True)):
        file = base_dir / name
        if not file.is_file():
            continue
        parent = file.parent
        if parent not in inside:
            inside[parent] = parent.resolve().is_relative_to(folder)
        if not inside[parent] or (file.is_symlink() and not file.resolve().is_relative_to(folder)):
            raise InputError(
                f"'{pattern}' matches '{name}', a link out of its folder. Name that file itself, or put a copy there."
            )
        files.append(str(file))
    return files


def _find_remote(path: str) -> list[str]:
    if path.startswith(("http://", "https://")) or not glob.has_magic(path):
        return [path]
    try:
        with foreign_errors():
            import fsspec

            system, pattern = fsspec.core.url_to_fs(path)
            files = sorted(system.unstrip_protocol(name) for name in system.glob(pattern) if not system.isdir(name))
    except OSError as error:
        raise InputError(f"'{path}' cannot be listed: {why(error)}.") from error
    if not files:
        raise InputError(f"no file matches '{path}'.")
    return files


def open_bytes(path: str) -> io.BufferedReader:
    """Open a file to read bytes, unpacked according to its suffix.

    Raises:
        InputError: it cannot be opened.
    """
    with reading(path, ValueError):
        suffix = Path(file_name_of(path)).suffix.lower()
        if suffix == ".zst":
            return _unpack_zstd(open_stored(path))
        if "://" not in path and suffix not in _COMPRESSED:
            return open(path, "rb")
        return _open_foreign(path, "infer")


def lines_of(file: io.BufferedReader, name: str, first: int = 1) -> Iterator[bytes]:
    """The lines of an opened file without outer white space, including blank ones; numbering starts at ``first``.

    Raises:
        InputError: a line is longer than 64 MiB.
    """
    number = first
    while line := file.readline(MAX_BYTES):
        if len(line) == MAX_BYTES and not line.endswith(b"\n"):
            raise InputError(f"'{name}' line {number} is longer than {MAX_BYTES >> 20} MiB.")
        # A byte order mark does not belong to a record. It begins a file, and in files that were joined, each of them.
        yield line.removeprefix(b"\xef\xbb\xbf").strip()
        number += 1


def document_of(path: str, name: str) -> bytes:
    """A file as a whole, unpacked, without a byte order mark.

    Raises:
        InputError: it cannot be read, or is longer than 512 MiB, unpacked.
    """
    with reading(name), open_bytes(path) as file:
        data = file.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise InputError(f"'{name}' is longer than {MAX_DOCUMENT >> 20} MiB as one document; write it as JSON Lines.")
    return data.removeprefix(b"\xef\xbb\xbf")


class BoundedLines:
    """The lines of a text for `csv.reader`; the caller calls `end_row` when a row is complete.

    Raises:
        InputError: a row is longer than 64 Mi characters.
    """

    def __init__(self, text: io.TextIOBase, name: str) -> None:
        # Python's default limit is too small for long answers.
        if csv.field_size_limit() < MAX_BYTES:
            csv.field_size_limit(MAX_BYTES)
        self._text = text
        self._name = name
        self._line = 0
        self._size = 0

    def __iter__(self) -> "BoundedLines":
        return self

    def __next__(self) -> str:
        line = self._text.readline(MAX_BYTES)
        if not line:
            raise StopIteration
        self._line += 1
        self._size += len(line)
        if self._size >= MAX_BYTES:
            raise InputError(f"'{self._name}' line {self._line}: its row is longer than {MAX_BYTES >> 20} MiB.")
        return line

    def end_row(self) -> None:
        """Start to count the next row."""
        self._size = 0


def open_stored(path: str) -> io.BufferedReader:
    """Open a file to read its bytes as they are stored.

    Raises:
        InputError: it cannot be opened.
    """
    with reading(path):
        return _open_foreign(path, None) if "://" in path else open(path, "rb")


def _open_foreign(path: str, compression: str | None) -> io.BufferedReader:
    with foreign_errors():
        import fsspec

        return io.BufferedReader(_ForeignFile(fsspec.open(path, "rb", compression=compression).open()), _BUFFER)


class _ForeignFile(io.RawIOBase):
    """A file of another library, remote or packed (`foreign_errors`).

    Some of these files can only read lines of any length; the reader around this one limits them.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with foreign_errors():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        with foreign_errors():
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextmanager
def foreign_errors() -> Iterator[None]:
    """Turn the errors of file systems, unpackers and HTTP clients into `OSError` or `EOFError`.

    Each library has its own error classes: ClientPayloadError, NoCredentialsError, LZMAError.
    """
    try:
        yield
    except (OSError, EOFError):
        raise
    except Exception as error:
        raise OSError(why(error)) from error


def _unpack_zstd(file: io.BufferedReader) -> io.BufferedReader:
    # Arrow unpacks Zstandard itself; Python does from 3.14 on.
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"), _BUFFER)


def content_hash(path: str) -> str:
    """sha256 of a file's bytes as they are stored, packed or not.

    Raises:
        InputError: it cannot be read.
    """
    with reading(path):
        if "://" not in path:
            return file_digest(Path(path))
        with open_stored(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def reading(name: str, *also: type[Exception], after: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Report a file that cannot be read, or breaks off, in one sentence.

    Args:
        name: the file's name in the message.
        also: errors besides those of files that mean the same.
        after: how far it was read, as `` after line 3``.

    Raises:
        InputError: it cannot be read.
    """
    errors: tuple[type[Exception], ...] = (OSError, EOFError, *also)
    try:
        yield
    except errors as error:
        raise InputError(f"'{name}' cannot be read{after()}: {why(error)}.") from error


def why(error: Exception) -> str:
    """Why a file cannot be read, without the file's name, the error's number and a full stop.

    Some file systems report only the file's name, with the reason in the error's cause.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {error.start})"
    if isinstance(error, OSError) and error.strerror:
        return " ".join(str(error.strerror).split()).rstrip(".")
    cause = error.__cause__
    text = str(cause if isinstance(error, FileNotFoundError) and error.errno is None and cause else error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__
