"""Rejected rows: stored with the reason, counted, and limited."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gage_eval.base.errors import InputError
from gage_eval.base.stages import StageResult
from gage_eval.base.tables import REJECTS
from gage_eval.observability.events import RunWarning
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.specs import PreprocessSpec, StandardizeSpec
from gage_eval.store import Artifact

_SHOWN = 3


def rejects_table(rows: Sequence[tuple[int, str | None, int | None, str, str, str]]) -> pa.Table:
    """`tables.REJECTS` of (row_index, file, line, stage, reason, record) rows."""
    # A reason repeats what a record holds, and no table holds half of a surrogate pair.
    stored = [(*place, reason.encode(errors="backslashreplace").decode(), record) for *place, reason, record in rows]
    columns = zip(*stored, strict=True) if stored else [()] * len(REJECTS.arrow)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, REJECTS.arrow, strict=True)]
    return pa.Table.from_arrays(arrays, schema=REJECTS.arrow)


def limit_on_rejects(
    kept: str, rejects: str, *, wrong: str, none: str
) -> Callable[[StageContext, Any, StageResult], None]:
    """Make the check of a stage that refuses a dataset with too many rejects, after all its rows were tried.

    Args:
        kept: name of the output with the accepted rows.
        rejects: name of the output with the rejected rows.
        wrong: what happened to the rejects, such as ``records were rejected``.
        none: the message if nothing was accepted, such as ``all of its {total} records were rejected``.

    Returns:
        A function that raises `InputError` if more rows than the spec allows were rejected, or all of them. The message
            has their number and the first ones.
    """

    def check(env: StageContext, spec: StandardizeSpec | PreprocessSpec, result: StageResult) -> None:
        rejected = result.counts[rejects]
        total = rejected + result.counts[kept]
        if not rejected:
            return
        first = _first(env, result, rejects)
        some = f"dataset '{spec.dataset_id}': {rejected:,} of {total:,} {wrong}"
        if rejected > (1.0 if spec.on_reject == "skip" else spec.max_reject_share) * total:
            remedy = "Fix them, or set on_reject: skip (or a max_reject_share) in the dataset's params."
            raise InputError(f"{some} ({first}). {remedy}")
        if rejected == total:
            raise InputError(f"dataset '{spec.dataset_id}': {none.format(total=f'{total:,}')} ({first}).")
        listed = f"gage show {env.run_id} --rejects lists them."
        env.observer.emit(RunWarning(f"{some} and are not scored ({first}). {listed}", result.task_id))

    return check


def _first(env: StageContext, result: StageResult, rejects: str) -> str:
    """Locations and reasons of the first rejects, each reason once, and the number of the others."""
    shown = _first_rows(env.store.artifact(result.outputs[rejects]))
    places: dict[str, list[str]] = {}
    for row in shown:
        places.setdefault(row["reason"].rstrip("."), []).append(_location(row))
    rest = result.counts[rejects] - len(shown)
    texts = [f"{', '.join(where)}: {reason}" for reason, where in places.items()]
    return "; ".join([*texts, *([f"and {rest:,} more"] if rest > 0 else [])])


def first_rejects(rejects: Artifact) -> list[str]:
    """Location and reason of the first rows of `tables.REJECTS`."""
    return [f"{_location(row)}: {row['reason']}" for row in _first_rows(rejects)]


def _first_rows(rejects: Artifact) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for table in rejects.tables(columns=["row_index", "file", "line", "reason"]):
        rows += table.slice(0, _SHOWN - len(rows)).to_pylist()
        if len(rows) == _SHOWN:
            break
    return rows


def _location(row: Mapping[str, Any]) -> str:
    if row["line"] is None:
        return f"row {row['row_index']}"
    return f"line {row['line']}" if row["file"] is None else f"{row['file']} line {row['line']}"
