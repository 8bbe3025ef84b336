"""Tables as files for other programs: CSV, JSON lines, Parquet."""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from gage_eval.base.canonical import canonical_json, canonical_text
from gage_eval.base.errors import InputError

SUFFIXES = (".csv", ".jsonl", ".parquet")
# A spreadsheet would take a text that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_CHUNK = 1_000
_CAST = "Cast that column in the query: CAST(name AS VARCHAR)."


def write_table(table: pa.Table, file: Path) -> None:
    """Write a table in the format that the file's name says.

    In CSV, nested values are JSON, and a text that a spreadsheet would run as a formula begins with an apostrophe.

    Raises:
        InputError: the format is unknown or cannot hold a value, or the file cannot be written.
    """
    if file.suffix not in SUFFIXES:
        raise InputError(f"'{file}': the format is unknown. End the name with {', '.join(SUFFIXES)}.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, file)
        else:
            is_csv = file.suffix == ".csv"
            with file.open("wb") as out:
                if is_csv:
                    out.write(csv_header(table))
                for batch in table.to_batches(max_chunksize=_CHUNK):
                    out.write(csv_lines(batch) if is_csv else json_lines(batch))
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error.strerror or error}.") from error
    except pa.ArrowNotImplementedError as error:
        raise InputError(f"Parquet cannot hold a column ({error}). {_CAST}") from error


def records(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with values as JSON has them (`plain`).

    Raises:
        InputError: a date that Python cannot represent.
    """
    try:
        dicts = rows.to_pylist()
    except (OverflowError, ValueError) as error:
        raise InputError(f"a value cannot be shown ({error}). {_CAST}") from error
    return [{name: plain(value) for name, value in row.items()} for row in dicts]


def plain(value: Any) -> Any:
    """A value of Arrow as JSON has it.

    Times and intervals are ISO 8601, maps objects, decimals numbers, and bytes hex. NaN and infinities are None.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, pa.MonthDayNano):
        return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:.9g}S"
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(key): plain(item) for key, item in value}
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def json_lines(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as JSON, one per line."""
    return b"".join(canonical_json(row) + b"\n" for row in records(rows))


def csv_header(rows: pa.Table | pa.RecordBatch) -> bytes:
    """The line of CSV that names the columns."""
    return _csv([[_csv_cell(name) for name in rows.schema.names]])


def csv_lines(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as CSV, without a header."""
    return _csv([_csv_cell(value) for value in row.values()] for row in records(rows))


def csv_records(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> Iterator[bytes]:
    """Records as CSV, line by line, after a header. A column that a record lacks is empty."""
    yield _csv([[_csv_cell(name) for name in names]])
    for row in rows:
        yield _csv([[_csv_cell(plain(row.get(name))) for name in names]])


def _csv(lines: Iterable[Sequence[Any]]) -> bytes:
    # Python quotes only those ends of lines that are in the line terminator; a bare CR ends a line for other programs.
    out = _Lines()
    csv.writer(out, lineterminator="\r\n").writerows(lines)
    return "".join(out).encode()


class _Lines(list[str]):
    """Takes each line of a csv writer, and ends it with LF alone."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n") + "\n")


def _csv_cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return canonical_text(value)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
