"""The index of a task: one small row per answer in a DuckDB file, so that a million answers are filtered in no time.

Tables of the file:

- ``answers``: one row per answer, in row order: what the list shows and filters by. For measure number i there are
  ``status_i``, ``value_i``, ``read_i``, ``reason_i`` and ``kind_i``; for slice number i there is ``slice_i``.
- ``texts``: question, answer and everything searchable in lower case, by the same ``pos``. A store that is not a folder
  is indexed without it, because it would have to be fetched whole.
- ``order_asked`` and ``order_answer``: every ``pos`` in the order of that text. Other columns sort fast enough.
- ``about``: one JSON text that describes the columns (`About`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import canonical_text, decode
from gage_eval.base.errors import InputError
from gage_eval.base.tables import RESPONSES, SAMPLES, TableSchema
from gage_eval.runs.results.calls import PendingResponses
from gage_eval.runs.results.joined_views import answers_query
from gage_eval.runs.results.outcomes import answer_kinds
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.rows import read_part
from gage_eval.runs.results.sql import literal
from gage_eval.scoring.metrics.grouping import Grouping, grouping, slice_column
from gage_eval.viewer.fields import slice_names

if TYPE_CHECKING:
    import duckdb

INDEX_VERSION = 5
TEXT_COLUMNS = ("asked", "answer")
"""Columns whose order is stored, because to sort a million texts takes half a second."""

BETWEEN = "\x1f"
"""Separates the values of a slice field that has several per sample."""

_EXCERPT = 160
# Whole excerpts of a million rows do not fit into the memory of a query.
_SORTED_BY = 40
_MOST_TAGS = 10
# Bytes of texts that are joined at a time, and of a transaction: a part may hold 64 MiB of them.
_JOINED_BYTES = 4 * 1024 * 1024
_COMMITTED_BYTES = 8 * 1024 * 1024
# What DuckDB may take; the second where single rows have many megabytes.
_MEMORY_LIMITS = ("96MB", "1GB")
_RESPONSE_COLUMNS = (
    *("row_index", "sample_id", "replicate", "status", "finish_reason", "error_kind"),
    *("prompt_tokens", "completion_tokens", "response_key"),
)
_ANSWER_TEXTS, _SAMPLE_TEXTS = ("answer",), ("messages", "label", "references")
_GROUPED_COLUMNS = ("row_index", "sample_id", "replicate", "status")
_SCORE_COLUMNS = ("row_index", "replicate", "filter", "status", "values", "extracted", "reason")


@dataclass(frozen=True)
class IndexedMeasure:
    """A measure whose columns end in its number."""

    number: int
    name: str
    metric_id: str
    filter: str | None
    value_key: str
    higher_is_better: bool | None
    judged: bool


@dataclass(frozen=True)
class IndexedSlice:
    """A field by which answers are grouped: ``slice_<number>``."""

    number: int
    path: str
    name: str


@dataclass(frozen=True)
class About:
    """What an index holds.

    Attributes:
        measures: the task's measures, the primary one first.
        slices: declared slice fields, then the keys of ``data_tag``.
        answers: number of rows.
        has_texts: whether the table ``texts`` is there.
        seconds: what building it took.
    """

    measures: tuple[IndexedMeasure, ...]
    slices: tuple[IndexedSlice, ...]
    answers: int
    has_texts: bool
    seconds: float

    @classmethod
    def of(cls, database: "duckdb.DuckDBPyConnection", name: str) -> "About":
        """What the index that is attached under a name holds."""
        record = decode(str(database.execute(f"SELECT about FROM {name}.about").fetchall()[0][0]))  # noqa: S608
        measures = tuple(IndexedMeasure(**measure) for measure in record.pop("measures"))
        return cls(measures=measures, slices=tuple(IndexedSlice(**field) for field in record.pop("slices")), **record)


def build_index(
    task: TaskReader,
    file: Path,
    *,
    slices: Sequence[str] = (),
    texts: bool = True,
    progress: Callable[[float], None] = lambda share: None,
) -> About:
    """Write the index of a task's answers so far.

    Args:
        task: the task; it has responses.
        file: where to write; it must not exist.
        slices: declared slice fields.
        texts: also make the answers searchable.
        progress: told the share of parts that are indexed.

    Raises:
        InputError: the task has no responses yet.
    """
    import duckdb

    try:
        return _build(task, file, slices, progress, _MEMORY_LIMITS[0], texts=texts)
    except (duckdb.OutOfMemoryException, duckdb.TransactionException):
        for written in (file, file.with_name(f"{file.name}.wal")):
            written.unlink(missing_ok=True)
        return _build(task, file, slices, progress, _MEMORY_LIMITS[1], texts=texts)


def _build(
    task: TaskReader, file: Path, slices: Sequence[str], progress: Callable[[float], None], memory: str, *, texts: bool
) -> About:
    import duckdb

    began = time.monotonic()
    parts = task.parts
    builder = _Builder(task, slices, texts=texts)
    with duckdb.connect(str(file), config={"memory_limit": memory, "threads": 2}) as database:
        # A commit for each part would wait for the disk each time; one for all would hold the index in memory.
        database.begin()
        added = 0
        for done, part in enumerate(parts):
            for size in builder.add(database, part):
                added += size
                if added >= _COMMITTED_BYTES:
                    added = 0
                    database.commit()
                    database.begin()
                    # Arrow keeps some 30 MB of freed tables otherwise.
                    pa.default_memory_pool().release_unused()
            progress((done + 1) / len(parts))
        about = builder.finish(database, time.monotonic() - began)
        database.execute("CREATE TABLE about AS SELECT ? AS about", [canonical_text(asdict(about))])
        database.commit()
    pa.default_memory_pool().release_unused()
    return about


class _Builder:
    def __init__(self, task: TaskReader, slices: Sequence[str], *, texts: bool) -> None:
        self._task = task
        self._measures = task.measures
        self._metric_ids = list(dict.fromkeys(measure.metric_id for measure in task.measures))
        self._texts = texts
        self._response_columns = (*_RESPONSE_COLUMNS, *(_ANSWER_TEXTS if texts else ()))
        self._sample_columns = ("row_index", "data_tag", *(_SAMPLE_TEXTS if texts else ()))
        self._declared = tuple(slices)
        self._grouping = grouping(task.task_id, slices=slices)
        self._tags: tuple[str, ...] | None = None
        self._unjudged: set[int] = set()
        self._answers = 0
        self._created = False

    def add(self, database: "duckdb.DuckDBPyConnection", part: int) -> Iterator[int]:
        """Index one part, some rows at a time. Yields the bytes of their tables."""
        responses = read_part(self._task.responses, part, self._response_columns)
        if not responses.num_rows:
            return
        samples = self._task.samples.read(part, self._sample_columns)
        if self._tags is None:
            self._tags = _tag_names(samples, self._declared)
        database.register("telemetry", self._telemetry(part))
        if self._declared:
            database.register("slices", self._slices(part))
        for number, metric_id in enumerate(self._metric_ids):
            database.register(f"scores_{number}", read_part(self._task.scores[metric_id], part, _SCORE_COLUMNS))
        order = pc.sort_indices(responses, [("row_index", "ascending"), ("replicate", "ascending")])
        size = samples.nbytes + responses.nbytes
        rows = max(1, len(order) * _JOINED_BYTES // max(size, 1))
        for start in range(0, len(order), rows):
            some = responses.take(order[start : start + rows])
            questions = samples.filter(pc.is_in(samples["row_index"], some["row_index"]))
            database.register("responses", some if self._texts else _with_nulls(some, RESPONSES, _ANSWER_TEXTS))
            database.register("samples", questions if self._texts else _with_nulls(questions, SAMPLES, _SAMPLE_TEXTS))
            self._add(database, part)
            yield size * some.num_rows // len(order)

    def _add(self, database: "duckdb.DuckDBPyConnection", part: int) -> None:
        """Index the rows of a part that are registered."""
        joined = database.sql(self._joined(part)).to_arrow_table()
        for number, measure in enumerate(self._measures or (None,)):
            columns = {"status": joined["status"]}
            if measure is not None:
                columns |= {"score_status": joined[f"status_{number}"], "value": joined[f"value_{number}"]}
            kinds = answer_kinds(pa.table(columns), measure, judged=number not in self._unjudged)
            if measure is not None and pc.any(pc.equal(kinds, "scored")).as_py():
                self._unjudged.add(number)
            joined = joined.append_column(f"kind_{number}", kinds)
        database.register("joined", joined)
        self._insert(database, "answers", _shortened())
        if self._texts:
            self._insert(database, "texts", _SEARCHABLE)
        self._created = True
        self._answers += joined.num_rows

    def finish(self, database: "duckdb.DuckDBPyConnection", seconds: float) -> About:
        """Describe what was written.

        Raises:
            InputError: there is no answer yet.
        """
        if not self._created:
            raise InputError(f"task '{self._task.task_id}' has no answer yet.")
        for column in TEXT_COLUMNS if self._texts else ():
            database.execute(f"CREATE TABLE order_{column} AS {order_query(column, 'answers')}")
        for number in sorted(self._unjudged):
            database.execute(
                f"UPDATE answers SET kind_{number} = 'scored' WHERE kind_{number} IN ('right', 'wrong')"  # noqa: S608
            )
        measures = tuple(
            IndexedMeasure(
                number,
                measure.name,
                measure.metric_id,
                measure.filter,
                measure.value_key,
                measure.scale.higher_is_better,
                measure.passes is not None and number not in self._unjudged,
            )
            for number, measure in enumerate(self._measures)
        )
        declared = [path.removeprefix("sample.") for path in self._declared]
        paths = [*declared, *(f"data_tag.{name}" for name in self._tags or ())]
        named = zip(paths, slice_names(paths), strict=True)
        slices = tuple(IndexedSlice(number, path, name) for number, (path, name) in enumerate(named))
        return About(measures, slices, self._answers, self._texts, seconds)

    def _telemetry(self, part: int) -> pa.Table:
        columns = ("row_index", "replicate", "latency_ms")
        if isinstance(self._task.responses, PendingResponses):
            return self._task.responses.telemetry(part).select(list(columns))
        return read_part(self._task.artifact("response_telemetry"), part, columns)

    def _slices(self, part: int) -> pa.Table:
        """The values of the declared slice fields by row index and replicate."""
        labelled = _labelled(self._task, part, self._grouping)
        names = [slice_column(number) for number in range(len(self._declared))]
        return labelled.select(["row_index", "replicate", *names])

    def _joined(self, part: int) -> str:
        """The query that puts the tables of a part together, without kinds."""
        columns = [
            f"({self._answers} + row_number() OVER (ORDER BY a.row_index, a.replicate) - 1)::INTEGER AS pos",
            f"{part}::INTEGER AS part, a.row_index, a.replicate, a.sample_id, a.status, a.finish_reason, a.error_kind",
            "a.prompt_tokens, a.completion_tokens, a.latency_ms::FLOAT AS latency_ms, a.response_key AS key_text",
            _TEXTS if self._texts else _NO_TEXTS,
        ]
        joins = []
        if self._declared:
            joins.append("LEFT JOIN slices l USING (row_index, replicate)")
        columns += [
            f"array_to_string(l.\"{slice_column(number)}\", '{BETWEEN}') AS slice_{number}"
            for number in range(len(self._declared))
        ]
        tags = enumerate(self._tags or (), len(self._declared))
        columns += [f"{_tag(name)} AS slice_{number}" for number, name in tags]
        for number, measure in enumerate(self._measures):
            table = f"scores_{self._metric_ids.index(measure.metric_id)}"
            own = "filter IS NULL" if measure.filter is None else f"filter = {literal(measure.filter)}"
            joins.append(
                f"LEFT JOIN (SELECT * FROM {table} WHERE {own}) m{number} ON m{number}.row_index = a.row_index "  # noqa: S608
                f"AND m{number}.replicate = a.replicate"
            )
            value = f"list_extract(map_extract(m{number}.values, {literal(measure.value_key)}), 1)"
            columns.append(
                f"m{number}.status AS status_{number}, {value} AS value_{number}, "
                f"m{number}.extracted AS read_{number}, m{number}.reason AS reason_{number}"
            )
        return f"SELECT {', '.join(columns)} FROM ({answers_query()}) a {' '.join(joins)} ORDER BY pos"  # noqa: S608

    def _insert(self, database: "duckdb.DuckDBPyConnection", table: str, query: str) -> None:
        start = f"INSERT INTO {table}" if self._created else f"CREATE TABLE {table} AS"
        database.execute(f"{start} {query}")


def _with_nulls(table: pa.Table, schema: TableSchema, names: Sequence[str]) -> pa.Table:
    """The table with columns that were not read."""
    for name in names:
        table = table.append_column(name, pa.nulls(table.num_rows, schema.arrow.field(name).type))
    return table


def _labelled(task: TaskReader, part: int, by: Grouping) -> pa.Table:
    """The keys of a part's answers with the values of the slice fields."""
    columns = sorted({"row_index"} | by.sample_columns)
    tables = {
        name: read_part(task.responses, part, None if name in by.inputs else _GROUPED_COLUMNS)
        if name == "responses"
        else task.artifact(name).read(part, columns=columns if name == "samples" else None)
        for name in {"samples", "responses"} | by.inputs
    }
    return by.label(tables["responses"].select(["row_index", "replicate"]), tables)


def _tag_names(samples: pa.Table, declared: Sequence[str]) -> tuple[str, ...]:
    """Keys of ``data_tag`` with plain values, without the declared slices."""
    names: dict[str, None] = {}
    for text in pc.unique(samples["data_tag"]).to_pylist():
        tags = decode(text) if text else None
        if isinstance(tags, dict):
            names |= {name: None for name, value in tags.items() if isinstance(value, str | int | float | list)}
    known = {path.removeprefix("sample.") for path in declared}
    return tuple(name for name in names if f"data_tag.{name}" not in known)[:_MOST_TAGS]


def _tag(name: str) -> str:
    """The value of a tag as text; the items of a list with `BETWEEN`."""
    # A JSON pointer: in a path of DuckDB the names * and "" mean something else.
    path = literal("/" + name.replace("~", "~0").replace("/", "~1"))
    single, items = f"json_extract_string(a.data_tag, {path})", f"json_extract(a.data_tag, {path})"
    several = f"array_to_string(from_json({items}, '[\"VARCHAR\"]'), '{BETWEEN}')"
    return f"CASE WHEN json_type({items}) = 'ARRAY' THEN {several} ELSE {single} END"


_TEXTS = "a.question, coalesce(a.answer, '') AS full_answer, a.expected, a.length::INTEGER AS length"
_NO_TEXTS = (
    "NULL::VARCHAR AS question, NULL::VARCHAR AS full_answer, NULL::VARCHAR AS expected, NULL::INTEGER AS length"
)
_SEARCHABLE = (
    "SELECT pos, question AS asked, full_answer AS answer, "
    "lower(concat_ws(chr(10), sample_id, question, full_answer, expected)) AS searchable FROM joined ORDER BY pos"
)


def _shortened() -> str:
    """The joined rows with excerpts of long texts, and the response key as a number."""
    start = f"substr(regexp_replace(question, '\\s+', ' ', 'g'), 1, {_EXCERPT + 1}) AS asked"
    end = f"right(regexp_replace(full_answer, '\\s+', ' ', 'g'), {_EXCERPT}) AS answer"
    key = "('0x' || substr(key_text, 1, 15))::BIGINT AS response_key"
    own = "* EXCLUDE (question, full_answer, key_text)"
    return f"SELECT {own}, {start}, {end}, {key} FROM joined ORDER BY pos"  # noqa: S608


def order_query(column: str, table: str) -> str:
    """A query for the positions of a table in the ascending order of a column: nulls last, equal ones by position."""
    is_text = column in (*TEXT_COLUMNS, "expected", "other_read") or column.startswith("read_")
    key = f"substr({column}, 1, {_SORTED_BY})" if is_text else column
    return f"SELECT pos FROM {table} ORDER BY {key} NULLS LAST, pos"  # noqa: S608


def response_number(response_key: str) -> int:
    """The column ``response_key`` of an answer."""
    return int(response_key[:15], 16)
