"""The listed answers as a file: CSV, JSON lines or Parquet."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import pyarrow as pa
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

from gage_eval.base.errors import InputError
from gage_eval.runs.results.tabular import csv_header, csv_lines, json_lines
from gage_eval.viewer.listing import ListState
from gage_eval.viewer.open_task import OpenTask
from gage_eval.viewer.query import Noted

if TYPE_CHECKING:
    from gage_eval.viewer.listing import Positions

# Answers that are in memory at a time: so many, of long ones those that have about so many bytes in the index.
_CHUNK = 10_000
_CHUNK_BYTES = 4 * 1024 * 1024
_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


def exported(shown: OpenTask, state: ListState, kind: str, noted: Noted) -> Response:
    """The file with all rows that the state lists, in its order, with whole questions and answers.

    Raises:
        InputError: the format is unknown, or the state cannot be listed.
    """
    if kind not in _TYPES:
        raise InputError(f"'{kind}' is not a format: {', '.join(_TYPES)}.")
    # Before the response begins: a list that cannot be made is an error, not a broken file.
    positions = shown.listing.positions(state, noted)
    columns = shown.listing.export_columns(state)
    tables = _tables(shown, positions, columns)
    headers = {"content-disposition": f'attachment; filename="{shown.run.run_id}.{kind}"'}
    if kind == "parquet":
        file = _parquet(tables)
        return FileResponse(file, media_type=_TYPES[kind], headers=headers, background=BackgroundTask(file.unlink))
    lines = _csv(tables) if kind == "csv" else (json_lines(table) for table in tables)
    return StreamingResponse(lines, media_type=_TYPES[kind], headers=headers)


def _csv(tables: Iterator[pa.Table]) -> Iterator[bytes]:
    for number, table in enumerate(tables):
        if number == 0:
            yield csv_header(table)
        yield csv_lines(table)


def _parquet(tables: Iterator[pa.Table]) -> Path:
    import pyarrow.parquet as pq

    with NamedTemporaryFile(prefix="gage-view-", suffix=".parquet", delete=False) as file:
        try:
            first = next(tables)
            with pq.ParquetWriter(file, first.schema) as writer:
                for table in chain([first], tables):
                    writer.write_table(table)
        except BaseException:
            Path(file.name).unlink()
            raise
    return Path(file.name)


def _tables(shown: OpenTask, positions: "Positions", columns: str) -> Iterator[pa.Table]:
    """The rows in chunks; at least one table, which may be empty."""
    listing = shown.listing
    chunk = min(_CHUNK, 1 + _CHUNK_BYTES * listing.about.answers // listing.database.bytes)
    for start in range(0, max(len(positions), 1), chunk):
        yield listing.table_at(positions[start : start + chunk], columns)
