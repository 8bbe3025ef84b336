"""The answers of several runs side by side: one row per question, put together once from the runs' indexes.

The table ``matrix`` has the columns ``pos``, ``sample_id`` and ``row_index``, and for run number i ``pos_i`` (the first
answer's place in the run's index), ``answers_i``, ``kind_i`` (``mixed`` if the repetitions are of several kinds) and
``value_i`` (their mean). ``spread`` is the highest value less the lowest. ``differs`` says that the runs' answers are
of different kinds or values. A question that a run lacks makes no difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gage_eval.base.errors import check_known
from gage_eval.runs.results.sql import literal
from gage_eval.viewer.database import ReadDatabase
from gage_eval.viewer.index import About
from gage_eval.viewer.listing import AT, Listing, ListState, LruCache, PageState, measure_of
from gage_eval.viewer.query import NO_NOTES, Noted

if TYPE_CHECKING:
    import numpy as np

    from gage_eval.viewer.listing import Mask, Positions

MIXED = "mixed"
SHOWN = {
    "": ("all", "true"),
    "differ": ("where they differ", "differs"),
    "wrong": ("none right", "NOT any_right"),
    "right": ("all right", "all_right"),
}
"""Which questions are listed: heading, and condition."""

_MOST_REMEMBERED = 12


def build_matrix(indexes: Sequence[Path], measure: str, file: Path) -> None:
    """Write the table ``matrix``.

    Args:
        indexes: of the runs, in the order of the columns.
        measure: name of the measure; empty where nothing is scored yet.
        file: where to write.

    Raises:
        InputError: a run does not have the measure.
    """
    import duckdb

    numbers = range(len(indexes))
    with duckdb.connect(str(file), config={"memory_limit": "512MB", "threads": 2}) as database:
        sources = []
        for number, index in enumerate(indexes):
            database.execute(f"ATTACH {literal(str(index))} AS i{number} (READ_ONLY)")
            about = About.of(database, f"i{number}")
            (repeated,) = database.execute(f"SELECT max(replicate) > 0 FROM i{number}.answers").fetchall()[0]  # noqa: S608
            sources.append(f"({_column(about, measure, number, repeated=bool(repeated))}) r{number}")
        values, kinds = (", ".join(f"{name}_{number}" for number in numbers) for name in ("value", "kind"))
        rights = [f"kind_{number} = 'right'" for number in numbers]
        wide = f"greatest({values}) - least({values})" if len(indexes) > 1 else "NULL"
        joined = " FULL JOIN ".join(source + (" USING (sample_id)" if at else "") for at, source in enumerate(sources))
        places = ", ".join(f"row_{number}" for number in numbers)
        database.execute(
            f"CREATE TABLE matrix AS SELECT *, spread > 0 OR greatest({kinds}) <> least({kinds}) AS differs FROM ("  # noqa: S608
            f"SELECT * EXCLUDE ({places}), coalesce({places}) AS row_index, {wide} AS spread, "
            f"coalesce({' OR '.join(f'coalesce({right}, false)' for right in rights)}, false) AS any_right, "
            f"{' AND '.join(f'coalesce({right}, true)' for right in rights)} AS all_right FROM {joined}) "
            "ORDER BY row_index, sample_id"
        )
        database.execute("ALTER TABLE matrix ADD COLUMN pos INTEGER")
        database.execute("UPDATE matrix SET pos = rowid")


def _column(about: About, name: str, number: int, *, repeated: bool) -> str:
    """A run's answers by sample, those of several repetitions together."""
    measure = measure_of(about, name)
    kind = f"kind_{0 if measure is None else measure.number}"
    value = "NULL::DOUBLE"
    if measure is not None:
        value = f"CASE WHEN status_{measure.number} <> 'unscored' THEN value_{measure.number} END"
    if not repeated:
        return (
            f"SELECT sample_id, row_index AS row_{number}, pos AS pos_{number}, 1 AS answers_{number}, "  # noqa: S608
            f"{kind} AS kind_{number}, {value} AS value_{number} FROM i{number}.answers"
        )
    return (
        f"SELECT sample_id, min(row_index) AS row_{number}, min(pos) AS pos_{number}, count(*) AS answers_{number}, "  # noqa: S608
        f"CASE WHEN min({kind}) = max({kind}) THEN min({kind}) ELSE '{MIXED}' END AS kind_{number}, "
        f"avg({value}) AS value_{number} FROM i{number}.answers GROUP BY sample_id"
    )


@dataclass(frozen=True)
class MatrixState(PageState):
    """What the page of a matrix shows. It is sorted by ``row``, ``spread`` or the number of a column.

    Attributes:
        runs: the columns, separated by commas: a run, or ``RUN/TASK``.
        show: one of `SHOWN`.
    """

    runs: str = ""
    show: str = ""


class AnswerMatrix:
    """A matrix opened for reading. Which questions a filter keeps and how a column orders them is remembered.

    Args:
        file: written by `build_matrix`.
        columns: the index of each run.
    """

    def __init__(self, file: Path, columns: Sequence[Listing]) -> None:
        self._database = ReadDatabase(matrix=file)
        self._columns = tuple(columns)
        self._masks: LruCache[Mask] = LruCache(_MOST_REMEMBERED)
        self._orders: LruCache[Positions] = LruCache(_MOST_REMEMBERED)
        counts = ", ".join(
            f"count(*) FILTER ({condition}) AS n_{at}" for at, (_, condition) in enumerate(SHOWN.values())
        )
        (row,) = self._database.rows(f"SELECT {counts} FROM matrix.matrix")  # noqa: S608
        self.counts: dict[str, int] = dict(zip(SHOWN, row.values(), strict=True))

    def positions(self, state: MatrixState, noted: Noted = NO_NOTES) -> "Positions":
        """Positions of the questions that a state lists, in its order.

        Raises:
            InputError: the search line or the order cannot be used.
        """
        column = self._sorted(state.sort)
        order = self._orders.get((column, state.desc), lambda: self._order(column, desc=state.desc))
        if not state.q and not state.show:
            return order
        said = tuple((verdict, frozenset(numbers)) for verdict, numbers in sorted(noted.items()))
        mask = self._masks.get((state.show, state.q, state.metric, said), lambda: self._mask(state, noted))
        return order[mask[order]]

    def rows(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The rows at some positions, in that order."""
        sql = f"SELECT m.* FROM {AT} JOIN matrix.matrix m USING (pos) ORDER BY wanted.place"  # noqa: S608
        return self._database.rows(sql, (positions, len(positions)))

    def _order(self, column: str, *, desc: bool) -> "Positions":
        way = "DESC" if desc else "ASC"
        return self._database.positions(f"SELECT pos FROM matrix.matrix ORDER BY {column} {way} NULLS LAST, pos")  # noqa: S608

    def _mask(self, state: MatrixState, noted: Noted) -> "Mask":
        """The questions of which one of the runs' answers matches the search line."""
        import numpy as np

        condition = SHOWN.get(state.show, SHOWN[""])[1]
        shown = self._empty()
        shown[self._database.positions(f"SELECT pos FROM matrix.matrix WHERE {condition}")] = True  # noqa: S608
        if not state.q:
            return shown
        matching = self._empty()
        for number, listing in enumerate(self._columns):
            answers = listing.positions(ListState(q=state.q, metric=state.metric), noted)
            starts, rows = self._starts(number)
            # A sample's repetitions follow its first answer.
            matching[rows[np.searchsorted(starts, answers, side="right") - 1]] = True
        return shown & matching

    def _starts(self, number: int) -> "tuple[Positions, Positions]":
        """The places of each sample's first answer in a run's index, ascending, and the sample's place here."""
        where = f"FROM matrix.matrix WHERE pos_{number} IS NOT NULL ORDER BY pos_{number}"
        starts = self._database.positions(f"SELECT pos_{number} AS pos {where}")
        return starts, self._database.positions(f"SELECT pos {where}")

    def _empty(self) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        import numpy as np

        return np.zeros(self.counts[""], dtype=np.bool_)

    def _sorted(self, name: str) -> str:
        columns = {"row": "pos", "spread": "spread"}
        columns |= {str(number): f"value_{number}" for number in range(len(self._columns))}
        check_known(name, columns, "column to sort by")
        return columns[name]
