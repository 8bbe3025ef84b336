"""The rows of a task that were rejected, by standardize or by preprocess, each with its place and the reason."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError
from gage_eval.base.stages import writer_of
from gage_eval.data.datasets.reading import file_name_of

if TYPE_CHECKING:
    from gage_eval.runs.results.reading import TaskReader


@dataclass(frozen=True)
class Reject:
    """A row that was rejected.

    Attributes:
        task_id: its task.
        stage: ``standardize`` or ``preprocess``.
        file: the dataset's file. None where the data is not from files, or the config's files are gone.
        line: 1-based line or position in the source.
        row_index: its row among those that were loaded.
        sample_id: the sample's id, where it became a sample.
        reason: one sentence.
        record: the record as text; of a sample its id.
    """

    task_id: str
    stage: str
    file: str | None
    line: int | None
    row_index: int
    sample_id: str | None
    reason: str
    record: str


def rejects_of(task: "TaskReader") -> Iterator[Reject]:
    """The rejected rows of a task in the order of its stages.

    Raises:
        InputError: standardize has not finished.
    """
    yield from _rejects(task, "rejects")
    if task.has_rows:
        yield from _rejects(task, "prepare_rejects")


def _rejects(task: "TaskReader", output: str) -> Iterator[Reject]:
    table, stage = task.artifact(output).table(), writer_of(output)
    lines = _lines(task, table) if stage == "preprocess" and len(table) else {}
    # Lines in the table are those of the row's file; those of the raw records continue from file to file.
    located = _located(task, lines.values())
    for row in table.to_pylist():
        line = row["line"]
        file = row["file"] or located.get(0, (None, 0))[0]
        if line is None and (counted := lines.get(row["row_index"])) is not None:
            file, line = located.get(counted, (file, counted))
        yield Reject(
            task.task_id,
            stage,
            file,
            line,
            row["row_index"],
            decode(row["record"])["id"] if stage == "preprocess" else None,
            row["reason"],
            row["record"],
        )


def _lines(task: "TaskReader", rejects: pa.Table) -> dict[int, int]:
    """The source's lines of rejected samples, by row index."""
    line_of: dict[int, int] = {}
    for raw in task.artifact("raw").tables(columns=["row_index", "line"]):
        mine = raw.filter(pc.is_in(raw["row_index"], rejects["row_index"]))
        line_of |= dict(zip(mine["row_index"].to_pylist(), mine["line"].to_pylist(), strict=True))
    return line_of


def _located(task: "TaskReader", lines: Iterable[int]) -> dict[int, tuple[str | None, int]]:
    """The file and the line in it of lines of the source; under 0 the only file, where there is one."""
    try:
        load = None if task.plan is None else task.plan.load
        files: Sequence[str] = () if load is None else getattr(load.source, "files", ())
        positions = {} if load is None else load.located(lines)
    except InputError:
        return {}
    return {**positions, 0: (file_name_of(files[0]), 0)} if len(files) == 1 else positions
