"""Comma- and tab-separated tables."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.datasets.base import RowLoader, Source, names_param, record_text
from gage_eval.data.datasets.reading import BoundedLines, open_bytes, reading
from gage_eval.data.sample.record import unreadable
from gage_eval.extend import registry
from gage_eval.store.media import Keep

_PARAMS = ("columns", "delimiter", "encoding", "source_field")
# Python's reader takes them, and then finds no delimiter.
_NOT_BETWEEN_CELLS = '"\r\n\0'
# What Python's decoder puts in the place of a byte that it cannot decode.
_UNDECODED = re.compile("[\udc80-\udcff]")


@registry.loaders.register("csv", version=1, params=_PARAMS)
class CsvLoader(RowLoader):
    """One record per row; the first row names the columns unless ``columns`` does. Every cell is text.

    Quoted cells may hold line breaks. A row with more or fewer cells than columns becomes a record that standardize
    rejects with its line number. Empty rows are skipped.

    Parameters (``params``):
        path: file, list of files, glob pattern (files in sorted order, each with its own header) or address; ``.gz``,
            ``.zst`` and the like are unpacked.
        columns: the names of the columns, for files without a header.
        delimiter: one character; a comma, or a tab in files that end in ``.tsv``.
        encoding: of the text. Default ``utf-8``.
        source_field: the record's field that takes the file's name without endings.

    Raises:
        InputError: a parameter is unknown or wrong, or a file is not there.
    """

    NAME: ClassVar[str] = "csv"
    DELIMITER: ClassVar[str | None] = None

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        self._source = Source.of(params, base_dir, self.NAME, _PARAMS)
        self._columns = names_param(params, "columns", self.NAME)
        _distinct(self._columns or [], f"loader {self.NAME}: columns")
        self._delimiter = _delimiter(params.get("delimiter"), self.NAME) or self.DELIMITER
        self._encoding = _encoding(params.get("encoding") or "utf-8", self.NAME)

    def identity(self) -> JsonValue:
        """sha256 of each file's bytes, and the reading parameters."""
        return {
            **self._source.identity(),
            "columns": self._columns,
            "delimiters": [self._delimiter_of(file) for file in self._source.files],
            "encoding": self._encoding,
        }

    def _rows(self, file: str, keep: Keep) -> Iterator[tuple[int, str | None]]:
        """(line, text) of each row, and the last line."""
        name = Path(file).name
        with open_bytes(file) as packed:
            # Bytes that cannot be decoded become lone surrogates, by which `_record` knows their row.
            text = io.TextIOWrapper(packed, self._encoding, errors="surrogateescape", newline="")
            bounded = BoundedLines(text, name)
            reader = csv.reader(bounded, delimiter=self._delimiter_of(file))
            columns, start = self._columns, 1
            with reading(name, csv.Error, UnicodeError, after=lambda: f" after line {reader.line_num}"):
                for cells in reader:
                    bounded.end_row()
                    if cells and columns is None:
                        columns = _header(cells, name)
                    elif cells and columns is not None:
                        yield start, self._record(columns, cells, file)
                    start = reader.line_num + 1
            yield reader.line_num, None

    def _delimiter_of(self, file: str) -> str:
        if self._delimiter is not None:
            return self._delimiter
        return "\t" if ".tsv" in Path(file).suffixes else ","

    def _record(self, columns: list[str], cells: list[str], path: str) -> str:
        if len(cells) != len(columns):
            reason = f"the row has {len(cells)} cells, but there are {len(columns)} columns."
            return unreadable(reason, ",".join(cells)[:1000].encode(errors="replace").decode())
        if any(not cell.isascii() and _UNDECODED.search(cell) for cell in cells):
            name = self._encoding.removesuffix("-sig")
            reason = f"the row is not {name.upper()}: save it as UTF-8, or set encoding in params, as latin-1."
            return unreadable(reason, ",".join(cells)[:1000].encode(errors="replace").decode())
        return record_text(self._source.named(dict(zip(columns, cells, strict=True)), path))


@registry.loaders.register("tsv", version=1, params=_PARAMS)
class TsvLoader(CsvLoader):
    """The csv loader for files with tabs between their cells, whatever their ending."""

    NAME = "tsv"
    DELIMITER = "\t"


def _delimiter(delimiter: Any, loader: str) -> str | None:
    if delimiter is None:
        return None
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in _NOT_BETWEEN_CELLS:
        raise InputError(f"loader {loader}: delimiter is one character, no quote or line end, not {delimiter!r}.")
    return delimiter


def _encoding(name: Any, loader: str) -> str:
    """The codec's own name; UTF-8 with or without a byte order mark is one encoding."""
    try:
        encoding = codecs.lookup(name).name
        "".encode(name)  # refuses codecs that are not for text, such as base64
    except (LookupError, TypeError, ValueError):
        raise InputError(f"loader {loader}: there is no encoding {name!r}; try utf-8.") from None
    return "utf-8-sig" if encoding == "utf-8" else encoding


def _header(cells: list[str], name: str) -> list[str]:
    """The names of the columns; a column without a name is named by its position."""
    names = [cell.strip() or f"column_{index}" for index, cell in enumerate(cells, 1)]
    return _distinct(names, f"the header of '{name}'")


def _distinct(names: list[str], where: str) -> list[str]:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise InputError(f"{where} names '{name}' twice; say columns: with a name for each.")
    return names
