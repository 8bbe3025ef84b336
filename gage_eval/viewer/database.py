"""An index opened for reading: queries cannot write, cannot read other files, and end after a few seconds."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gage_eval.base.errors import InputError
from gage_eval.runs.results.sql import literal, lock, sentence_of
from gage_eval.viewer.index import About

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import pyarrow as pa

QUERY_LIMIT_S = 10.0
_MEMORY = "128MB"


class ReadDatabase:
    """Files of DuckDB opened for reading.

    Args:
        files: by the name under which queries know them.
    """

    def __init__(self, **files: Path) -> None:
        import duckdb

        self._connection = duckdb.connect(
            ":memory:",
            config={"memory_limit": _MEMORY, "threads": 2, "autoinstall_known_extensions": False,
                    "autoload_known_extensions": False, "temp_directory": ""},
        )  # fmt: skip
        for name, file in files.items():
            self._connection.execute(f"ATTACH {literal(str(file))} AS {name} (READ_ONLY)")
        lock(self._connection)

    def positions(self, sql: str, values: Sequence[Any] = ()) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """The column ``pos`` of a query, in its order."""
        import numpy as np

        with self._cursor() as cursor:
            arrays = cursor.execute(sql, list(values)).fetchnumpy()
            return np.asarray(arrays["pos"], dtype=np.int32)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows of a query."""
        rows: list[dict[str, Any]] = self.table(sql, values).to_pylist()
        return rows

    def table(self, sql: str, values: Sequence[Any] = ()) -> "pa.Table":
        """The rows of a query as an Arrow table."""
        with self._cursor() as cursor:
            return cursor.sql(sql, params=list(values)).to_arrow_table()

    @contextmanager
    def _cursor(self) -> "Iterator[duckdb.DuckDBPyConnection]":
        """A cursor whose query is interrupted after `QUERY_LIMIT_S`.

        Raises:
            InputError: the query is wrong, or takes too long or too much memory.
        """
        import duckdb

        cursor = self._connection.cursor()
        timer = threading.Timer(QUERY_LIMIT_S, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield cursor
        except duckdb.InterruptException as error:
            raise InputError(f"the query takes longer than {QUERY_LIMIT_S:.0f} s: ask for less.") from error
        except duckdb.OutOfMemoryException as error:
            raise InputError(f"the query needs more than {_MEMORY}: ask for less.") from error
        except duckdb.Error as error:
            raise InputError(f"SQL: {sentence_of(error)}") from error
        finally:
            timer.cancel()
            cursor.close()


class IndexDatabase(ReadDatabase):
    """The index of a task, and optionally its pairs with another run (table ``pairs``).

    Args:
        file: the index.
        pairs: a file of `gage_eval.viewer.pairing`.

    Attributes:
        bytes: size of the index.
    """

    def __init__(self, file: Path, pairs: Path | None = None) -> None:
        super().__init__(task=file, **({} if pairs is None else {"paired": pairs}))
        self.has_pairs = pairs is not None
        self.bytes = file.stat().st_size
        with self._cursor() as cursor:
            self.about = About.of(cursor, "task")


def check_expression(text: str) -> None:
    """Check that a text is one SQL expression, such as ``score < 0.5 AND tokens > 100``.

    Raises:
        InputError: it is something else, or cannot be parsed.
    """
    import duckdb

    try:
        statements = duckdb.extract_statements(f"SELECT (\n{text}\n)")
    except duckdb.Error as error:
        raise InputError(f"SQL: {' '.join(str(error).splitlines()[0].split())}") from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InputError("SQL: write one expression, such as score < 0.5 AND tokens > 100.")
