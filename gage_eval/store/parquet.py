"""Tables to Parquet bytes and back. Identity is the content hash of the rows, never these bytes."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

# What Arrow and Parquet raise for bytes that are not a Parquet file, or not a whole one.
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError)


def write_parquet(table: pa.Table, target: Path | BytesIO) -> None:
    """Write the rows in their order as Parquet (zstd level 1).

    Without dictionaries and statistics: most texts differ from row to row, zstd finds those that repeat, and parts are
    read whole. Both would cost a quarter of the time and make larger files.
    """
    pq.write_table(table, target, compression="zstd", compression_level=1, use_dictionary=False, write_statistics=False)


def parquet_bytes(table: pa.Table) -> bytes:
    """The table as one Parquet file in memory."""
    buffer = BytesIO()
    write_parquet(table, buffer)
    return buffer.getvalue()


def read_parquet(source: Path | bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the table of a Parquet file; ``columns`` names the wanted columns, in order.

    Raises:
        KeyError: the file has no such column.
        pa.ArrowException, OSError, ValueError: not a Parquet file, or not a whole one.
    """
    opened = pa.BufferReader(source) if isinstance(source, bytes) else source
    with pq.ParquetFile(opened) as file:
        # Single-threaded: an Arrow thread that releases Python's bytes while the interpreter ends aborts the process.
        table = file.read(columns=None if columns is None else list(columns), use_threads=False)
    table = table.replace_schema_metadata(None)
    return table if columns is None else table.select(list(columns))
