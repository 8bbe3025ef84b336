"""SQL over stored runs: a DuckDB database of views that read the store's Parquet files where they lie.

One SELECT at a time, read only: a query can read the parts of the runs that were opened, and no other file.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gage_eval.base.errors import InputError, nearest
from gage_eval.base.tables import (
    EXECUTION_TELEMETRY,
    EXECUTIONS,
    JUDGMENTS,
    METRICS,
    PREPARED,
    REJECTS,
    RESPONSE_TELEMETRY,
    RESPONSES,
    SAMPLES,
    SCORES,
    TableSchema,
)
from gage_eval.report.model_run import model_title
from gage_eval.runs.options import Locations
from gage_eval.runs.results.joined_views import JOINED
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.stored import stored_runs
from gage_eval.store import Artifact, Store

if TYPE_CHECKING:
    import duckdb


_THREAD = "gage-eval-sql"
_INTERRUPT_EVERY_S = 0.05
_UNKNOWN_VIEW = re.compile(r'Table with name (\S+) does not exist!(?: Did you mean "(\S+)"\?)?')
_OTHER_FILE = "file system operations are disabled"
_UNKNOWN_COLUMN = re.compile(r'Referenced column "([^"]+)" not found.*?Candidate bindings: (.*)')
_NOT_IN_ALIAS = re.compile(r'(?:Values list|Table) "([^"]+)" does not have a column named "([^"]+)"')


@dataclass(frozen=True)
class View:
    """A view over one kind of artifact.

    Attributes:
        name: of the view.
        table: the rows; ``run_id`` and ``task_id`` come before their columns.
        output: the output that holds them; scores are named by the metrics table.
        description: one row is …
        keys: what names the artifact of a row, before its columns.
        hidden: columns of the table that are not shown.
        value: SQL of a column ``value``; empty for none.
    """

    name: str
    table: TableSchema
    output: str
    description: str
    keys: tuple[str, ...] = ("run_id", "task_id")
    hidden: tuple[str, ...] = ()
    value: str = ""


VIEWS = (
    View("samples", SAMPLES, "samples", "a sample of a task"),
    View("rejects", REJECTS, "rejects", "a row of the data that was rejected"),
    View("requests", PREPARED, "prepared", "what a sample asks, before the adapter's prompt"),
    View("responses", RESPONSES, "responses", "an answer of the model"),
    View("telemetry", RESPONSE_TELEMETRY, "response_telemetry", "how an answer came: latency, attempts"),
    View("judgments", JUDGMENTS, "judgments", "a judge's verdict on an answer"),
    View("executions", EXECUTIONS, "executions", "how the program of an answer ended"),
    View("execution_telemetry", EXECUTION_TELEMETRY, "execution_telemetry", "what the program of an answer used"),
    View(
        *("scores", SCORES, "scores", "a metric's score of an answer; value is its first number"),
        keys=("run_id", "task_id", "model", "metric_id"),
        value="list_extract(map_values(values), 1)",
    ),
    View(
        *("metrics", METRICS, "metrics", "a number of a task, over all rows or a slice"),
        keys=("run_id", "task_id", "model"),
        hidden=("scores",),
    ),
)
_RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("model", pa.string()),
        ("name", pa.string()),
        ("status", pa.string()),
        ("created", pa.timestamp("us", "UTC")),
        ("finished", pa.timestamp("us", "UTC")),
        ("gage_eval", pa.string()),
        ("config_digest", pa.string()),
        ("tasks", pa.list_(pa.string())),
    ]
)
_PARTS = pa.schema([(name, pa.string()) for name in ("view", "file", "run_id", "task_id", "model", "metric_id")])


class Database:
    """The views over some runs. Use it as a context manager.

    Args:
        locations: where the runs are; None for views without rows.
        run_ids: these runs; by default all whose record can be read.

    Raises:
        InputError: there is no such run.
    """

    def __init__(self, locations: Locations | None, run_ids: Sequence[str] = ()) -> None:
        self._readers: list[RunReader] = []
        self._root: Path | None = None
        if locations is not None:
            ids = run_ids or list(_readable(locations))
            self._root = Store.open(locations.store, read_only=True).objects.local_root
            self._readers = [RunReader.open(locations, run_id) for run_id in ids]
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def query(self, sql: str) -> pa.Table:
        """The rows of a SELECT; DESCRIBE, SUMMARIZE and SHOW are SELECTs too.

        Columns of one name, as two views that are joined have them, get a number: ``name``, ``name_1``.

        Raises:
            InputError: it is not one SELECT, or DuckDB refuses it; in DuckDB's words.
        """
        import duckdb

        try:
            statements = duckdb.extract_statements(sql)
            kinds = {statement.type for statement in statements}
            if len(statements) != 1 or not kinds <= {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}:
                raise InputError("a query is one SELECT, WITH, FROM, DESCRIBE, SUMMARIZE or EXPLAIN.")
            result = self._rows(self._opened(sql), sql)
        except duckdb.Error as error:
            raise InputError(sentence_of(error, columns())) from error
        return result.rename_columns(_distinct(result.column_names))

    @staticmethod
    def _rows(connection: "duckdb.DuckDBPyConnection", sql: str) -> pa.Table:
        """The rows of a query, in a thread: DuckDB itself may not look for a signal before its end."""
        rows: Future[pa.Table] = Future()

        def answer() -> None:
            if not rows.set_running_or_notify_cancel():
                return
            try:
                rows.set_result(connection.sql(sql).to_arrow_table())
            except BaseException as error:  # noqa: BLE001 - raised where the rows are awaited
                rows.set_exception(error)

        try:
            Thread(target=answer, name=_THREAD, daemon=True).start()
            return rows.result()
        except KeyboardInterrupt:
            # Again and again, because it may come before the query begins.
            while not rows.cancel() and not wait([rows], timeout=_INTERRUPT_EVERY_S).done:
                connection.interrupt()
            raise

    def _opened(self, sql: str) -> "duckdb.DuckDBPyConnection":
        if self._connection is None:
            import duckdb

            self._connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": False})
            self._fill(self._connection, sql)
        return self._connection

    def _fill(self, database: "duckdb.DuckDBPyConnection", sql: str) -> None:
        """Make the views, and take away what leads out of them."""
        artifacts = list(self._artifacts())
        database.register("runs_", pa.Table.from_pylist(list(self._runs()), schema=_RUNS))
        database.execute("CREATE TABLE runs AS SELECT * FROM runs_")
        models = {reader.run_id: reader.stored.record.models for reader in self._readers}
        parts = [
            (view, file, run_id, task_id, model_title(models[run_id], task_id), metric_id)
            for view, run_id, task_id, metric_id, artifact in artifacts
            for file in self._files(artifact)
        ]
        rows = [dict(zip(_PARTS.names, part, strict=True)) for part in parts]
        database.register("parts_", pa.Table.from_pylist(rows, schema=_PARTS))
        database.execute("CREATE TABLE gage_parts AS SELECT * FROM parts_")
        for view in VIEWS:
            files = sorted({file for name, file, *_ in parts if name == view.name})
            if self._root is not None and files:
                # Artifacts of older versions lack columns.
                database.register(f"{view.name}_now", view.table.empty())
                source = (
                    f"(FROM read_parquet({_list(files)}, filename = true, union_by_name = true) "
                    f"UNION ALL BY NAME FROM {view.name}_now)"
                )
            else:
                # Of a store that DuckDB cannot reach itself, only what the query names is fetched.
                names = [view.name, *(name for name, joined in JOINED.items() if view.name in joined.views)]
                named = re.search(rf"\b({'|'.join(names)})\b", sql, re.IGNORECASE) is not None
                own = [artifact for name, *_, artifact in artifacts if name == view.name] if named else []
                database.register(f"{view.name}_", _fetched(view, own, self._files))
                source = f"{view.name}_"
            keys = ", ".join(f"p.{name}" for name in view.keys)
            replaced = [name for name in view.table.arrow.names if name in view.keys]
            hidden = ", ".join(f'"{name}"' for name in ("filename", *view.hidden, *replaced))
            value = f", {view.value} AS value" if view.value else ""
            database.execute(
                f"CREATE VIEW {view.name} AS SELECT {keys}{value}, t.* EXCLUDE ({hidden}) FROM {source} t "  # noqa: S608
                f"JOIN gage_parts p ON p.view = '{view.name}' AND p.file = t.filename"
            )
        for name, joined in JOINED.items():
            database.execute(f"CREATE VIEW {name} AS {joined.query}")
        readable = sorted({file for _, file, *_ in parts}) if self._root is not None else []
        database.execute(f"SET allowed_paths = {_list(readable)}")
        lock(database)

    def _runs(self) -> Iterator[dict[str, Any]]:
        for reader in self._readers:
            record = reader.stored.record
            shown = {"run_id": reader.run_id, "model": record.model, "status": reader.stored.state}
            yield {**dict(record), **shown, "config_digest": record.config.digest}

    def _artifacts(self) -> Iterator[tuple[str, str, str, str | None, Artifact]]:
        """(view, run, task, metric, artifact) of everything that the runs have."""
        for reader in self._readers:
            for (task_id, stage), outputs in reader.stored.outputs.items():
                for view in VIEWS:
                    if view.output in outputs:
                        yield view.name, reader.run_id, task_id, None, reader.store.artifact(outputs[view.output])
                if stage == "auto_eval":
                    for metric_id, artifact in reader.task(task_id).scores.items():
                        yield "scores", reader.run_id, task_id, metric_id, artifact

    def _files(self, artifact: Artifact) -> list[str]:
        """The files of an artifact, as DuckDB names them."""
        names = [part.path(artifact.id) for part in artifact.parts]
        return names if self._root is None else [str(self._root / name) for name in names]


def _readable(locations: Locations) -> Iterator[str]:
    """The runs whose record can be read. Lists of runs show the damaged ones."""
    for stored in stored_runs(locations):
        try:
            stored.folder.record()
        except InputError:
            continue
        yield stored.run_id


def columns() -> dict[str, list[tuple[str, str]]]:
    """(column, type) of every view."""
    with Database(None) as database:
        described = {
            name: database.query(f"DESCRIBE {name}").to_pylist()
            for name in ("runs", *JOINED, *(view.name for view in VIEWS))
        }
    return {name: [(row["column_name"], row["column_type"]) for row in rows] for name, rows in described.items()}


def _fetched(view: View, artifacts: Sequence[Artifact], files_of: Callable[[Artifact], list[str]]) -> pa.Table:
    schema = view.table.arrow.append(pa.field("filename", pa.string()))
    tables = []
    for artifact in {artifact.id: artifact for artifact in artifacts}.values():
        for part, file in zip(artifact.parts, files_of(artifact), strict=True):
            table = artifact.read(part.index)
            tables.append(table.append_column("filename", pa.repeat(pa.scalar(file), table.num_rows)))
    return pa.concat_tables(tables, promote_options="default") if tables else schema.empty_table()


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(literal, texts))}]"


def literal(text: str) -> str:
    """A text as SQL writes it.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def lock(database: "duckdb.DuckDBPyConnection") -> None:
    """From here on no query leads out of what is attached or allowed, whatever it says."""
    for setting in ("enable_external_access = false", "lock_configuration = true"):
        database.execute(f"SET {setting}")


def sentence_of(error: Exception, views: Mapping[str, Sequence[tuple[str, str]]] | None = None) -> str:
    """DuckDB's message without its excerpt of the query; what it cannot know (views, files) in our own words.

    Args:
        error: DuckDB's.
        views: the `columns` of the views that were queried: where an unknown name may be found.
    """
    text = " ".join(str(error).split("\n\nLINE ")[0].split())
    if _OTHER_FILE in text:
        return "a query reads the views of stored runs, and no other file."
    near: str | None
    if (view := _UNKNOWN_VIEW.search(text)) is not None:
        name, near = view.groups()
        said, having = f"there is no view '{name}'", []
    else:
        if (absent := _NOT_IN_ALIAS.search(text)) is not None:
            alias, name = absent.groups()
            said, near = f"there is no column '{name}' in '{alias}'", None
        elif (unknown := _UNKNOWN_COLUMN.search(text)) is not None:
            name, candidates = unknown.groups()
            said, near = f"there is no column '{name}'", nearest(name, re.findall(r'"([^"]+)"', candidates))
        else:
            return text
        having = [view for view, view_columns in (views or {}).items() if name in dict(view_columns)]
    if having:
        return f"{said}; {', '.join(having)} {'has' if len(having) == 1 else 'have'} it."
    if near is not None:
        return f"{said}. Did you mean '{near}'?"
    return f"{said}." if views is None else f"{said}. 'gage sql' lists the views and their columns."


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, the repeated ones with a number."""
    made: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        made[next(candidate for candidate in chain([name], numbered) if candidate not in made)] = None
    return list(made)
