"""Spreadsheets of Excel, where openpyxl is installed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.datasets.base import FileLoader, Record, Source, open_stored, record_text, text_param, why
from gage_eval.data.datasets.cells import plain
from gage_eval.data.sample.record import unreadable
from gage_eval.extend import registry
from gage_eval.extend.extras import install

_PARAMS = ("sheet", "source_field")


@registry.loaders.register("xlsx", version=1, params=_PARAMS)
class XlsxLoader(FileLoader):
    """One record per row of a sheet; its first row names the columns. Needs openpyxl.

    Formulas give their stored values.

    Parameters (``params``):
        path: file, list of files, glob pattern (files in sorted order) or address.
        sheet: the sheet's name; the first one by default.
        source_field: the record's field that takes the file's name without endings.

    Raises:
        InputError: a parameter is unknown or wrong, or a file is not there.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        self._source = Source.of(params, base_dir, "xlsx", _PARAMS)
        self._sheet = text_param(params, "sheet", "xlsx")

    def identity(self) -> JsonValue:
        """sha256 of each file's bytes, and the sheet."""
        return {**self._source.identity(), "sheet": self._sheet}

    def records(self) -> Iterator[Record]:
        """(row, text) of each row with a value; the header is row 1, and row numbers continue from file to file.

        Raises:
            InputError: openpyxl is missing, a file holds no workbook, a sheet is not there, or there is no row at all.
        """
        before, empty = 0, True
        self.starts.clear()
        for path in self._source.files:
            self._source.begins(before)
            header: list[str] = []
            number = 0
            for number, cells in enumerate(self._rows(path), 1):
                if not header:
                    header = [str(cell or "").strip() or f"column_{at}" for at, cell in enumerate(cells, 1)]
                elif any(cell is not None for cell in cells):
                    empty = False
                    yield before + number, self._text(dict(zip(header, cells, strict=False)), path)
            before += number
        if empty:
            raise self._source.nothing()

    def _rows(self, path: str) -> Iterator[tuple[Any, ...]]:
        name = Path(path).name
        try:
            from openpyxl import load_workbook
        except ImportError as error:
            raise InputError(f"loader xlsx needs openpyxl, which is not installed: {install('openpyxl')}.") from error
        try:
            with open_stored(path) as file:
                book = load_workbook(file, read_only=True, data_only=True)
                if self._sheet is not None and self._sheet not in book.sheetnames:
                    raise InputError(f"'{name}' has no sheet '{self._sheet}'. Sheets: {', '.join(book.sheetnames)}.")
                sheet = book.worksheets[0] if self._sheet is None else book[self._sheet]
                yield from sheet.iter_rows(values_only=True)
        except InputError:
            raise
        except Exception as error:
            # What it raises for a damaged file depends on which part of the archive is damaged.
            raise InputError(f"'{name}' cannot be read: {why(error) or type(error).__name__}.") from error

    def _text(self, row: dict[str, Any], path: str) -> str:
        try:
            return record_text(self._source.named(plain(row, _no_bytes), path))
        except ValueError as error:
            return unreadable(f"the row has no JSON form: {error}.", "")


def _no_bytes(data: bytes) -> str:
    raise ValueError(f"{len(data)} bytes in a cell")
