"""A small table and its artifacts, enough for what a store promises."""

import pyarrow as pa

from gage_eval.store import Artifact, Store
from gage_eval.tables import TableSchema

ROWS = TableSchema("rows", 1, pa.schema([("row_index", pa.int64()), ("text", pa.string())]))


def rows(start: int, stop: int, text: str = "row") -> pa.Table:
    """Rows ``start`` to ``stop``."""
    return pa.table(
        {"row_index": list(range(start, stop)), "text": [f"{text} {i}" for i in range(start, stop)]}, ROWS.arrow
    )


def commit(store: Store, *parts: pa.Table, complete: bool = True) -> Artifact:
    """An artifact of these parts."""
    with store.writer(ROWS) as writer:
        for index, part in enumerate(parts):
            writer.write(index, part)
        return writer.commit(complete=complete)
