"""Parquet tables."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.datasets.base import FileLoader, Record, Source, open_stored, record_text, why
from gage_eval.data.datasets.cells import plain
from gage_eval.data.sample.record import unreadable
from gage_eval.extend import registry
from gage_eval.store.media import Keep

_PARAMS = ("columns", "source_field")
_BATCH = 512


@registry.loaders.register("parquet", version=2, params=_PARAMS, keeps_media=True)
class ParquetLoader(FileLoader):
    """One record per row, read row group by row group.

    NaN becomes null, times are ISO 8601, decimals are text. Bytes, such as images, are stored by their hash.

    Parameters (``params``):
        path: file, list of files, glob pattern (files in sorted order) or address.
        columns: the columns to read; all of them by default.
        source_field: the record's field that takes the file's name without endings.

    Raises:
        InputError: a parameter is unknown or wrong, or a file is not there.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        self._source = Source.of(params, base_dir, "parquet", _PARAMS)
        columns = params.get("columns")
        if columns is not None and not (isinstance(columns, list) and all(isinstance(name, str) for name in columns)):
            raise InputError(f"loader parquet: columns is a list of names, not {columns!r}.")
        self._columns: list[str] | None = columns

    def identity(self) -> JsonValue:
        """sha256 of each file's bytes, and the columns that are read."""
        return {**self._source.identity(), "columns": self._columns}

    def records(self, keep: Keep) -> Iterator[Record]:
        """(row from 1, text) of each row; row numbers continue from file to file.

        Args:
            keep: stores bytes.

        Raises:
            InputError: there is no row at all, a file is not Parquet, or a column is not there.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        position = 0
        self.starts.clear()
        for path in self._source.files:
            self._source.begins(position)
            name = Path(path).name
            try:
                with open_stored(path) as file, pq.ParquetFile(file) as table:
                    self._check_columns(table.schema_arrow.names, name)
                    for batch in table.iter_batches(_BATCH, columns=self._columns):
                        for row in batch.to_pylist():
                            position += 1
                            yield position, self._text(row, path, keep)
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"'{name}' cannot be read after row {position}: {why(error)}.") from error
        if position == 0:
            raise self._source.nothing()

    def _check_columns(self, names: list[str], file: str) -> None:
        missing = [name for name in self._columns or () if name not in names]
        if missing:
            raise InputError(f"'{file}' has no column '{missing[0]}'. Columns: {', '.join(names)}.")

    def _text(self, row: dict[str, Any], path: str, keep: Keep) -> str:
        try:
            return record_text(self._source.named(plain(row, keep), path))
        except ValueError as error:
            return unreadable(f"the row has no JSON form: {error}.", "")
