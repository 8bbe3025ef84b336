"""The records of a file that no config names: jsonl, json, csv, tsv, parquet or xlsx."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.config.models import LOADER_BY_SUFFIX, implied_loader
from gage_eval.data.datasets.build import build_loader
from gage_eval.data.sample.record import RecordRejected, parse_record


def records_of(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records, each with its place for messages, as ``record 3 of 'a.csv'``. Bytes become empty texts.

    Raises:
        InputError: the file's ending is not known, it cannot be read, or a record is not an object.
    """
    loader = implied_loader({"params": {"path": path}})
    if loader is None:
        known = ", ".join(LOADER_BY_SUFFIX)
        raise InputError(f"'{path}' has an ending that is not known here: {known}, or these with .gz or .zst.")
    reader = build_loader(loader, {"path": path}, Path.cwd())
    records = reader.records(lambda _: "") if loader == "parquet" else reader.records()
    for number, text in records:
        where = f"record {number} of '{path}'"
        try:
            yield where, parse_record(text)
        except RecordRejected as error:
            raise InputError(f"{where}: {error.reason}") from error
