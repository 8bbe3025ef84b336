"""Parquet tables."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.datasets.base import RowLoader, Source, names_param
from gage_eval.data.datasets.cells import row_text
from gage_eval.data.datasets.reading import open_stored, reading
from gage_eval.extend import registry
from gage_eval.store.media import Keep

_PARAMS = ("columns", "source_field")
_BATCH = 512


@registry.loaders.register("parquet", version=2, params=_PARAMS, keeps_media=True)
class ParquetLoader(RowLoader):
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
        self._columns = names_param(params, "columns", "parquet")

    def identity(self) -> JsonValue:
        """sha256 of each file's bytes, and the columns that are read."""
        return {**self._source.identity(), "columns": self._columns}

    def _rows(self, file: str, keep: Keep) -> Iterator[tuple[int, str | None]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        name, number = Path(file).name, 0
        named = partial(self._source.named, file=file)
        broken = reading(name, pa.ArrowException, after=lambda: f" after row {number}")
        with broken, open_stored(file) as opened, pq.ParquetFile(opened) as table:
            self._check_columns(table.schema_arrow.names, name)
            for batch in table.iter_batches(_BATCH, columns=self._columns):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row_text(row, keep, named=named)

    def _check_columns(self, names: list[str], file: str) -> None:
        missing = [name for name in self._columns or () if name not in names]
        if missing:
            raise InputError(f"'{file}' has no column '{missing[0]}'. Columns: {', '.join(names)}.")
