"""Spreadsheets of Excel, where openpyxl is installed."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.datasets.base import RowLoader, Source, text_param
from gage_eval.data.datasets.cells import row_text
from gage_eval.data.datasets.reading import open_stored, why
from gage_eval.extend import registry
from gage_eval.extend.extras import install
from gage_eval.store.media import Keep

_PARAMS = ("sheet", "source_field")


@registry.loaders.register("xlsx", version=1, params=_PARAMS)
class XlsxLoader(RowLoader):
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

    def _rows(self, file: str, keep: Keep) -> Iterator[tuple[int, str | None]]:
        header: list[str] = []
        named = partial(self._source.named, file=file)
        for number, cells in enumerate(self._cells(file), 1):
            has_values = bool(header) and any(cell is not None for cell in cells)
            yield number, row_text(dict(zip(header, cells, strict=False)), keep, named=named) if has_values else None
            header = header or [str(cell or "").strip() or f"column_{at}" for at, cell in enumerate(cells, 1)]

    def _cells(self, path: str) -> Iterator[tuple[Any, ...]]:
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
