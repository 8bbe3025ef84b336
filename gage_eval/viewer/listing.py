"""The list of a task's answers: filtered, sorted and cut into pages."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from urllib.parse import quote, urlencode

from gage_eval.base.errors import InputError, check_known, closest
from gage_eval.report.messages import Message
from gage_eval.viewer.database import IndexDatabase, check_expression
from gage_eval.viewer.index import BETWEEN, TEXT_COLUMNS, About, IndexedMeasure, order_query
from gage_eval.viewer.query import NO_NOTES, Noted, condition_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Positions = np.ndarray[Any, np.dtype[np.int32]]
    Mask = np.ndarray[Any, np.dtype[np.bool_]]

T = TypeVar("T")

SIZES = (25, 50, 100, 200)
# Of a million answers, a filter takes 1 MB and an order 4 MB.
_FILTERS = 16
_ORDERS = 6
# One of ten thousand steps may take 20 MB.
_TRAJECTORIES = 2
AT = "(SELECT unnest(?::INTEGER[]) AS pos, unnest(range(?)) AS place) wanted"
"""The rows at some positions, in SQL; its values are the positions and how many there are."""

_MENTIONS_TEXT = re.compile(r"\b(asked|answer)\b", re.IGNORECASE)

COLUMNS: dict[str, tuple[str, str]] = {
    "id": ("sample", "sample_id"),
    "asked": ("asked", "asked"),
    "answer": ("answered", "answer"),
    "read": ("read out", "read"),
    "expected": ("expected", "expected"),
    "status": ("status", "kind"),
    "score": ("score", "value"),
    "reason": ("reason", "reason"),
    "tokens": ("tokens", "completion_tokens"),
    "prompt_tokens": ("prompt tokens", "prompt_tokens"),
    "length": ("characters", "length"),
    "latency": ("ms", "latency_ms"),
    "finish": ("finish", "finish_reason"),
    "error": ("error", "error_kind"),
    "replicate": ("repetition", "replicate"),
    "row": ("row", "row_index"),
    "other": ("read out there", "other_read"),
    "change": ("better by", "change"),
}
"""The columns of the list by their name in links: heading, and column of the index."""

RIGHT = frozenset({"score", "tokens", "prompt_tokens", "length", "latency", "replicate", "row", "change"})
_OF_MEASURE = frozenset({"kind", "value", "read", "reason"})
_OF_PAIRS = frozenset({"other_read", "change"})


@dataclass(frozen=True)
class PageState:
    """Everything that determines what a page of rows shows; it is in the page's address.

    Attributes:
        task: id of the task.
        q: the search line.
        metric: name of the measure; the primary one when empty.
        sort, desc: by which column.
        page: from 1.
        size: rows of a page.
    """

    task: str = ""
    q: str = ""
    metric: str = ""
    sort: str = "row"
    desc: bool = False
    page: int = 1
    size: int = 50

    @classmethod
    def of(cls, params: Mapping[str, str]) -> Self:
        """The state in an address; what cannot be read there gets its default."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            text = params.get(field.name)
            if text is None:
                continue
            if isinstance(field.default, bool):
                values[field.name] = text == "1"
            elif isinstance(field.default, int):
                number = number_of(text)
                values[field.name] = field.default if number is None else number
            else:
                values[field.name] = text.strip()
        state = cls(**values)
        return replace(state, page=max(state.page, 1), size=state.size if state.size in SIZES else 50)

    @property
    def first(self) -> int:
        """How many rows are before the page."""
        return (self.page - 1) * self.size

    def of_page(self, positions: "Positions") -> list[int]:
        """The positions of the page's rows."""
        shown: list[int] = positions[self.first : self.first + self.size].tolist()
        return shown

    def pages(self, rows: int) -> int:
        """How many pages so many rows have."""
        return max(1, -(-rows // self.size))

    def query(self, **changes: Any) -> str:
        """The state as the query of an address, without defaults. A change of what is listed goes to page 1."""
        if changes and "page" not in changes and "size" not in changes:
            changes["page"] = 1
        state = replace(self, **changes)
        return urlencode(
            {
                field.name: ("1" if value else "0") if isinstance(value, bool) else value
                for field in fields(state)
                if (value := getattr(state, field.name)) != field.default or field.name == "task"
            }
        )


@dataclass(frozen=True)
class ListState(PageState):
    """What a list shows. It is sorted by a name of `COLUMNS`, ``m<number>`` or ``s<number>``.

    Attributes:
        where: a condition in SQL.
        cols: names of columns, separated by commas; the usual ones when empty.
        against: another run.
    """

    where: str = ""
    cols: str = ""
    against: str = ""


@dataclass(frozen=True)
class ListLinks:
    """The lists of a run's answers (`gage_eval.report.run_view.Links`)."""

    run_id: str

    def answers(self, task_id: str, *, q: str = "", metric: str = "", against: str = "") -> str:
        """The address of a list."""
        return f"/runs/{quote(self.run_id, safe='')}/samples?{ListState(task_id, q, metric, against=against).query()}"

    def sample(self, task_id: str, sample_id: str, replicate: int = 0) -> str:
        """The address of the answer to a sample."""
        return f"/runs/{quote(self.run_id, safe='')}/sample?{sample_query(ListState(task_id), sample_id, replicate)}"

    def plots(self, task_id: str) -> str:
        """The address of a task's plots."""
        return f"/matrix/plots?{urlencode({'runs': self.run_id, 'task': task_id})}"


def measure_of(about: About, name: str) -> IndexedMeasure | None:
    """The measure of that name, the primary one for an empty name; None before scoring.

    Raises:
        InputError: there is none of that name.
    """
    if not name:
        return about.measures[0] if about.measures else None
    check_known(name, [measure.name for measure in about.measures], "metric")
    return next(measure for measure in about.measures if measure.name == name)


def sample_query(state: ListState, sample_id: str, replicate: int) -> str:
    """The query of an answer's address, within a list."""
    rest = urlencode({"id": sample_id, **({"rep": replicate} if replicate else {})})
    return f"{state.query(page=state.page)}&{rest}"


def number_of(text: str | None) -> int | None:
    """A number of an address or a form; None for any other text."""
    # Python refuses to read integers of thousands of digits.
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else None


def number_in(params: Mapping[str, str], name: str) -> int:
    """A number of an address or a form; 0 where it cannot be read there."""
    return number_of(params.get(name)) or 0


def _named_columns(columns: Iterable[tuple[str, str]]) -> str:
    """Columns in SQL under their names; of several with one name, the first."""
    by_name: dict[str, str] = {}
    for name, column in columns:
        quoted = name.replace('"', '""')
        by_name.setdefault(name.lower(), f'{column} AS "{quoted}"')
    return ", ".join(by_name.values())


class LruCache(Generic[T]):
    """The results that were used last, by key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Any, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """The result under a key; it is made if it is not remembered."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        result = make()
        with self._lock:
            self._known[key] = result
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return result

    def clear(self, is_gone: Callable[[Any], bool] = lambda key: True) -> None:
        """Forget the results whose keys are gone, by default all."""
        with self._lock:
            for key in filter(is_gone, list(self._known)):
                del self._known[key]


class Listing:
    """The lists of one index. What a filter keeps and how a column orders the answers is remembered separately, so that
    another order of the same answers, or other answers in the same order, need no query."""

    def __init__(self, database: IndexDatabase) -> None:
        self.database = database
        self.about = database.about
        self._masks: LruCache[Mask | None] = LruCache(_FILTERS)
        self._orders: LruCache[tuple[Positions, int]] = LruCache(_ORDERS)
        self._results: dict[tuple[Any, ...], Any] = {}
        self.trajectories: LruCache[Sequence[Message]] = LruCache(_TRAJECTORIES)
        """The steps of answers that were shown last, by sample and repetition."""

    def positions(self, state: ListState, noted: Noted = NO_NOTES) -> "Positions":
        """Positions of the answers that a state lists, in its order.

        Args:
            state: the state.
            noted: response numbers by what people said, where the search line asks for them.

        Raises:
            InputError: the search line, the SQL or the order cannot be used.
        """
        import numpy as np

        measure = measure_of(self.about, state.metric)
        said = tuple((verdict, frozenset(numbers)) for verdict, numbers in sorted(noted.items()))
        mask = self._masks.get((state.q, state.where, state.metric, said), lambda: self._mask(state, measure, noted))
        if state.sort == "row":
            chosen = np.arange(self.about.answers) if mask is None else np.flatnonzero(mask)
            return (chosen[::-1] if state.desc else chosen).astype(np.int32)
        column = self._sorted(state.sort, measure)
        order, known = self._orders.get(column, lambda: self._order(column))
        if state.desc:
            order = np.concatenate([order[:known][::-1], order[known:]])
        return order if mask is None else order[mask[order]]

    def _mask(self, state: ListState, measure: IndexedMeasure | None, noted: Noted) -> "Mask | None":
        """Which answers the filters keep; None for all of them."""
        import numpy as np

        paired = self.database.has_pairs
        condition = condition_of(state.q, self.about, measure, paired=paired, noted=noted)
        where = [condition.sql]
        if state.where:
            check_expression(state.where)
            named = self._named(state.where, measure)
            where.append(f"a.pos IN (SELECT pos FROM ({named}) WHERE (\n{state.where}\n))")  # noqa: S608
        if where == ["true"] and not paired:
            return None
        joined = " JOIN paired.pairs p ON p.pos = a.pos" if paired else ""
        sql = f"SELECT a.pos FROM task.answers a{joined} WHERE {' AND '.join(where)}"  # noqa: S608
        mask = np.zeros(self.about.answers, dtype=np.bool_)
        mask[self.database.positions(sql, condition.values)] = True
        return mask

    def _order(self, column: str) -> "tuple[Positions, int]":
        """All positions in the ascending order of a column, and how many have a value; the others are last."""
        table, _, name = column.rpartition(".")
        source = "paired.pairs" if table == "p" else "task.answers"
        stored = name in TEXT_COLUMNS and self.about.has_texts
        query = f"SELECT pos FROM task.order_{name}" if stored else order_query(name, source)  # noqa: S608
        (counted,) = self.database.rows(f"SELECT count({name}) AS known FROM {source}")  # noqa: S608
        return self.database.positions(query), counted["known"]

    def at(self, positions: list[int], state: ListState) -> list[dict[str, Any]]:
        """The rows at some positions, in that order.

        Each has the names of `COLUMNS`, ``pos`` and the columns of measures and slices.
        """
        if not positions:
            return []
        measure = measure_of(self.about, state.metric)
        columns = ["a.pos", "a.part", "a.response_key"]
        columns += [f"{column} AS {name}" for name, column in self._columns(measure)]
        columns += [f"a.value_{indexed.number} AS m{indexed.number}" for indexed in self.about.measures]
        columns += [
            f"replace(a.slice_{field.number}, '{BETWEEN}', ', ') AS s{field.number}" for field in self.about.slices
        ]
        if self.database.has_pairs:
            columns += ["p.other_kind", "p.other_value", "p.other_status"]
        return self.database.rows(self._at(", ".join(columns)), (positions, len(positions)))

    def export_columns(self, state: ListState) -> str:
        """The columns of an export in SQL: all that can be shown, measures and slices, and whole texts."""
        own = self._columns(measure_of(self.about, state.metric), whole=self.about.has_texts)
        return _named_columns([("sample_id", "a.sample_id"), *own[1:], *self._indexed])

    def table_at(self, positions: "Positions", columns: str) -> "pa.Table":
        """Columns of the answers at some positions, in that order."""
        texts = " JOIN task.texts x ON x.pos = a.pos" if self.about.has_texts else ""
        return self.database.table(self._at(columns, texts), (positions.tolist(), len(positions)))

    def _at(self, columns: str, texts: str = "") -> str:
        """The query for columns of the answers at some positions."""
        pairs = " LEFT JOIN paired.pairs p ON p.pos = a.pos" if self.database.has_pairs else ""
        joined = f"JOIN task.answers a ON a.pos = wanted.pos{texts}{pairs}"
        return f"SELECT {columns} FROM {AT} {joined} ORDER BY wanted.place"  # noqa: S608

    def find(self, sample_id: str, replicate: int) -> dict[str, Any] | None:
        """Position, part and row index of an answer; None if there is none."""
        rows = self.database.rows(
            "SELECT pos, part, row_index FROM task.answers WHERE sample_id = ? AND replicate = ? LIMIT 1",
            (sample_id, replicate),
        )
        return rows[0] if rows else None

    def replicates(self, sample_id: str) -> list[dict[str, Any]]:
        """The answers to a sample."""
        return self.database.rows(
            "SELECT replicate, kind_0 AS status FROM task.answers WHERE sample_id = ? ORDER BY replicate", (sample_id,)
        )

    def remembered(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query over the whole index, which are read once."""
        return self.remember((sql,), lambda: self.database.rows(sql))

    def remember(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What is computed from the whole index once."""
        if key not in self._results:
            self._results[key] = make()
        result: T = self._results[key]
        return result

    def _sorted(self, name: str, measure: IndexedMeasure | None) -> str:
        if name in COLUMNS:
            return self._column(COLUMNS[name][1], measure)
        for prefix, column, known in (("m", "value", self.about.measures), ("s", "slice", self.about.slices)):
            if re.fullmatch(rf"{prefix}\d+", name) and any(indexed.number == int(name[1:]) for indexed in known):
                return f"a.{column}_{name[1:]}"
        raise InputError(f"the list cannot be sorted by '{name}'.{closest(name, list(COLUMNS))}")

    def _columns(self, measure: IndexedMeasure | None, *, whole: bool = False) -> list[tuple[str, str]]:
        """What there is of `COLUMNS`, in SQL under their names; the answers' id first.

        Args:
            measure: by which answers are right or wrong.
            whole: take texts from the table that has them whole.
        """
        return [
            (name, f"x.{name}" if whole and name in TEXT_COLUMNS else self._column(column, measure))
            for name, (_, column) in COLUMNS.items()
            if self.database.has_pairs or column not in _OF_PAIRS
        ]

    def _column(self, column: str, measure: IndexedMeasure | None) -> str:
        if column in _OF_PAIRS:
            if not self.database.has_pairs:
                raise InputError("this column needs a run to compare with: choose one first.")
            return f"p.{column}"
        if column == "kind":
            return f"a.kind_{0 if measure is None else measure.number}"
        if column in _OF_MEASURE:
            return "NULL" if measure is None else f"a.{column}_{measure.number}"
        return f"a.{column}"

    def _named(self, where: str, measure: IndexedMeasure | None) -> str:
        """The answers under the names that users know."""
        with_texts = self.about.has_texts and _MENTIONS_TEXT.search(where) is not None
        own = [*self._columns(measure, whole=with_texts), ("sample_id", "a.sample_id")]
        if self.database.has_pairs:
            own.append(("other_score", "p.other_value"))
        columns = _named_columns([("pos", "a.pos"), *own, *self._indexed])
        joined = " JOIN task.texts x ON x.pos = a.pos" if with_texts else ""
        joined += " JOIN paired.pairs p ON p.pos = a.pos" if self.database.has_pairs else ""
        return f"SELECT {columns} FROM task.answers a{joined}"  # noqa: S608

    @property
    def _indexed(self) -> list[tuple[str, str]]:
        """The measures and slices by their names."""
        measures = [(measure.name, f"a.value_{measure.number}") for measure in self.about.measures]
        return measures + [(field.name, f"a.slice_{field.number}") for field in self.about.slices]
