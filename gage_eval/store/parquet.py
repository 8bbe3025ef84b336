"""Tables to Parquet bytes and back. What counts is the content hash of the rows, never these bytes."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

# What Arrow and Parquet raise for bytes that are no Parquet file, or not whole.
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError)


def write_parquet(table: pa.Table, target: Path | BytesIO) -> None:
    """Write the rows in their order as Parquet (zstd level 1)."""
    pq.write_table(table, target, compression="zstd", compression_level=1)


def parquet_bytes(table: pa.Table) -> bytes:
    """The table as one Parquet file in memory."""
    buffer = BytesIO()
    write_parquet(table, buffer)
    return buffer.getvalue()


def read_parquet(source: Path | bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """The table of a Parquet file; ``columns`` names those wanted, in their order.

    Raises:
        KeyError: the file has no such column.
        pa.ArrowException, OSError, ValueError: no Parquet file, or not all of one.
    """
    opened = pa.BufferReader(source) if isinstance(source, bytes) else source
    with pq.ParquetFile(opened) as file:
        # In this thread alone: a thread of Arrow's that lets go of Python's bytes while the interpreter ends aborts it.
        table = file.read(columns=None if columns is None else list(columns), use_threads=False)
    table = table.replace_schema_metadata(None)
    return table if columns is None else table.select(list(columns))
