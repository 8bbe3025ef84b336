"""Rows that cannot be used: kept with the reason, counted, and too many of them refused."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from gage_eval.errors import InputError
from gage_eval.stages.base import Env, StageResult
from gage_eval.tables import REJECTS

_SHOWN = 3


def rejects_table(rows: Sequence[tuple[int, int | None, str, str, str]]) -> pa.Table:
    """`tables.REJECTS` of (row_index, line, stage, reason, record) rows."""
    columns = zip(*rows, strict=True) if rows else [()] * len(REJECTS.arrow)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, REJECTS.arrow, strict=True)]
    return pa.Table.from_arrays(arrays, schema=REJECTS.arrow)


def refuse_rejects(
    env: Env, result: StageResult, *, outputs: tuple[str, str], dataset_id: str, allowed: float, wrong: str, none: str
) -> None:
    """Refuse a dataset of which too much was rejected, once all of it was tried.

    Args:
        env: of the run.
        result: of the stage.
        outputs: names of what was kept and of the rejects.
        dataset_id: the dataset's name.
        allowed: the share that may be rejected, 0..1.
        wrong: what is the matter with the rejects, as ``records are no samples``.
        none: said when nothing was kept, as ``none of its {total} records is a sample``.

    Raises:
        InputError: more than that were rejected, or all of them. The message counts them and shows the first.
    """
    kept, rejected = (result.counts[name] for name in outputs)
    total = rejected + kept
    if rejected <= allowed * total:
        if rejected and not kept:
            raise InputError(f"dataset '{dataset_id}': {none.format(total=f'{total:,}')}.")
        return
    table = env.store.artifact(result.outputs[outputs[1]]).table(columns=["row_index", "line", "reason"])
    first = "; ".join(f"{_place(row)}: {row['reason'].rstrip('.')}" for row in table.slice(0, _SHOWN).to_pylist())
    more = f"; and {rejected - _SHOWN:,} more" if rejected > _SHOWN else ""
    raise InputError(
        f"dataset '{dataset_id}': {rejected:,} of {total:,} {wrong} ({first}{more}). "
        "Mend them, or set on_reject: skip (or a max_reject_share) in the dataset's params."
    )


def _place(row: Mapping[str, Any]) -> str:
    return f"line {row['line']}" if row["line"] is not None else f"row {row['row_index']}"
