"""A small table and its artifacts, enough for what a store promises."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gage_eval.base.tables import TableSchema
from gage_eval.store import Artifact, Store
from gage_eval.store.responses import pack_keys

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


def index(store: Store, model: str, artifact_id: str, keys: Sequence[str], places: Sequence[tuple[int, int]]) -> None:
    """Make responses known: their keys, and part and row of each."""
    store.responses.add(model, artifact_id, pack_keys(keys), np.array(places, np.int32).reshape(-1, 2))
