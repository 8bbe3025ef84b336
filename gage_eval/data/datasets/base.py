"""The contract of a loader, and the code that loaders of files share."""

import dataclasses
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest
from gage_eval.data.datasets.reading import content_hash, find_files, stem
from gage_eval.data.sample.record import unreadable
from gage_eval.store.media import Keep

Record: TypeAlias = tuple[int, str]
"""1-based line number (or position) in the source, and the record's raw text."""


class Loader(Protocol):
    """Reads one source of records.

    Built as ``loader(params, base_dir)``: the dataset's parameters for the loader, and the folder that relative paths
    start from. A loader is registered with ``params``, the parameters that it takes besides ``path``, so that
    `gage validate` knows them. A loader whose records hold media as bytes is registered with ``keeps_media``: its
    ``records`` takes a `store.media.Keep` that stores the bytes, because rows never hold data. A loader may have
    ``notes``, sentences on its data that each run says.
    """

    def identity(self) -> JsonValue:
        """The source's identity for keys: hashes of the content, never a path or a time."""
        ...

    def records(self) -> Iterator[Record]:
        """All records in the order of the source, streamed."""
        ...


@dataclass(frozen=True)
class Source:
    """The files of a loader, and the field of a record that holds the name of its file.

    Attributes:
        path: as in the config.
        files: paths or addresses, in reading order.
        field: the record's field that gets the file's name without endings; None for no such field.
        starts: for each file read so far, how many lines or records the files before it have.
    """

    path: str
    files: tuple[str, ...]
    field: str | None = None
    starts: list[int] = dataclasses.field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of(cls, params: Mapping[str, Any], base_dir: Path, loader: str, known: Iterable[str]) -> "Source":
        """The source that ``path`` and ``source_field`` name.

        Raises:
            InputError: a parameter is unknown, or no file is there.
        """
        check_params(params, ("path", *known), loader)
        value: Any = params.get("path")
        paths: list[Any] = value if isinstance(value, list) else [value]
        if not paths or not all(isinstance(path, str) and path for path in paths):
            raise InputError(f"loader {loader} needs params.path, the file to read, or a list of files.")
        field = text_param(params, "source_field", loader)
        files = [file for path in paths for file in find_files(path, base_dir)]
        for file, times in Counter(files).most_common(1) if len(paths) > 1 else ():
            if times > 1:
                raise InputError(f"params.path names '{Path(file).name}' twice; a file is read once.")
        return cls(", ".join(paths), tuple(files), field)

    def identity(self) -> dict[str, JsonValue]:
        """sha256 of each file's bytes, in reading order; also the files' names where records hold them."""
        out: dict[str, JsonValue] = {"files": [content_hash(file) for file in self.files]}
        if self.field is not None:
            out["source"] = {"field": self.field, "names": [stem(file) for file in self.files]}
        return out

    def named(self, record: JsonValue, file: str) -> JsonValue:
        """The record with the name of its file; an existing field is not changed."""
        if self.field is None or not isinstance(record, dict):
            return record
        return {self.field: stem(file), **record}

    def nothing(self) -> InputError:
        """The error for a source without a record."""
        return InputError(f"'{self.path}' holds no records.")


def no_media(data: bytes) -> str:
    """Refuse bytes, in files that hold no media."""
    raise ValueError(f"{len(data)} bytes in a cell")


class FileLoader:
    """Base of loaders that read files. ``__init__`` finds the files."""

    _source: Source

    @property
    def files(self) -> tuple[str, ...]:
        """The files, in the order in which they are read."""
        return self._source.files

    @property
    def starts(self) -> list[int]:
        """For each file read so far, the number of lines or records in the files before it."""
        return self._source.starts


class RowLoader(FileLoader, ABC):
    """Base of loaders that read their files one after the other, row by row."""

    def records(self, keep: Keep = no_media) -> Iterator[Record]:
        """(number, text) of each record; numbers continue from file to file.

        Args:
            keep: stores bytes.

        Raises:
            InputError: a file cannot be read, or there is no record at all.
        """
        before, is_empty = 0, True
        self.starts.clear()
        for file in self.files:
            self.starts.append(before)
            number = 0
            for number, text in self._rows(file, keep):
                if text is not None:
                    is_empty = False
                    yield before + number, text
            before += number
        if is_empty:
            raise self._source.nothing()

    @abstractmethod
    def _rows(self, file: str, keep: Keep) -> Iterator[tuple[int, str | None]]:
        """(number from 1, text) of each row or line of a file; None for one that is not a record."""


def check_params(params: Mapping[str, Any], known: Iterable[str], loader: str) -> None:
    """Refuse parameters that the loader does not have.

    Raises:
        InputError: names the parameter and the closest known one.
    """
    names = list(known)
    for name in params:
        if name not in names:
            takes = ", ".join(names)
            raise InputError(f"loader {loader} has no parameter '{name}'. It takes: {takes}.{closest(name, names)}")


def text_param(params: Mapping[str, Any], name: str, loader: str) -> str | None:
    """A text parameter; None when it is not given.

    Raises:
        InputError: it is something else, or empty.
    """
    value = params.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    raise InputError(f"loader {loader}: {name} is a text, not {value!r}.")


def names_param(params: Mapping[str, Any], name: str, loader: str) -> list[str] | None:
    """A list of names; None when it is not given.

    Raises:
        InputError: it is something else.
    """
    value = params.get(name)
    if value is None or (isinstance(value, list) and all(isinstance(item, str) and item for item in value)):
        return value
    raise InputError(f"loader {loader}: {name} is a list of names, not {value!r}.")


def decode_line(line: bytes) -> str:
    """The text of a line. A line that is not UTF-8 becomes a record that standardize rejects with the reason."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        shown = line[:1000].decode(errors="backslashreplace")
        return unreadable(f"the record is not UTF-8: {error.reason} at byte {error.start}.", shown)


def record_text(record: JsonValue) -> str:
    """The raw text of a record built by a loader. A record without a JSON form is rejected later, with the reason."""
    try:
        return canonical.encode(record).decode()
    except (ValueError, RecursionError) as error:
        return unreadable(f"the record has no JSON form: {error}.", "")
