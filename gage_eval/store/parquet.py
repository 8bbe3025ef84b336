"""Tables to Parquet bytes and back. Identity is the content hash of the rows, never these bytes."""

from collections.abc import Collection, Sequence
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gage_eval.store.ranges import RangedFile

# What Arrow and Parquet raise for bytes that are not a Parquet file, or not a whole one.
# A row group holds about so many bytes before compression, so that one row of large texts can be read alone.
_GROUP_BYTES = 2 * 1024 * 1024
_KEY = "row_index"
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError)


Source: TypeAlias = Path | bytes | RangedFile


def write_parquet(table: pa.Table, target: Path | BytesIO) -> None:
    """Write the rows in their order as Parquet (zstd level 1).

    Without dictionaries and statistics: most texts differ from row to row, zstd finds those that repeat, and parts are
    read whole. Both would cost a quarter of the time and make larger files. Pages have checksums, for reads of a few
    columns, which cannot compare the hash of the file.
    """
    groups = max(1, table.nbytes // _GROUP_BYTES)
    pq.write_table(
        table,
        target,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        row_group_size=max(1, -(-table.num_rows // groups)),
    )


def parquet_bytes(table: pa.Table) -> bytes:
    """The table as one Parquet file in memory."""
    buffer = BytesIO()
    write_parquet(table, buffer)
    return buffer.getvalue()


def read_parquet(
    source: Source, columns: Sequence[str] | None = None, rows: Collection[int] | None = None
) -> tuple[pa.Table, int]:
    """Read the table of a Parquet file.

    Args:
        source: the file. Of a `RangedFile`, only what is needed is read, and the checksums of its pages are compared.
        columns: the wanted columns, in order; all by default.
        rows: row indexes (column ``row_index``); row groups without any of them are left out.

    Returns:
        The table, and the number of rows of the whole file.

    Raises:
        KeyError: the file has no such column.
        pa.ArrowException, OSError, ValueError: not a Parquet file, or not a whole one.
    """
    opened = pa.BufferReader(source) if isinstance(source, bytes) else source
    ranged = isinstance(source, RangedFile)
    names = None if columns is None else list(columns)
    with pq.ParquetFile(opened, pre_buffer=ranged, page_checksum_verification=ranged) as file:
        groups = _groups_with(file, rows)
        # Single-threaded: an Arrow thread that releases Python's bytes while the interpreter ends aborts the process.
        table = file.read_row_groups(groups, columns=names, use_threads=False)
        count = file.metadata.num_rows
    table = table.replace_schema_metadata(None)
    return (table if names is None else table.select(names)), count


def _groups_with(file: pq.ParquetFile, rows: Collection[int] | None) -> list[int]:
    """The row groups that hold any of these rows."""
    groups = list(range(file.num_row_groups))
    if rows is None or len(groups) == 1:
        return groups
    wanted = pa.array(list(rows), pa.int64())
    keys = (file.read_row_group(group, columns=[_KEY], use_threads=False)[_KEY] for group in groups)
    return [group for group, key in zip(groups, keys, strict=True) if pc.any(pc.is_in(key, wanted)).as_py()]
