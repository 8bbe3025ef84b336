"""gage sql: a query over stored runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gage_eval.base.canonical import canonical_text
from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, OutputDir, Store, argument, option
from gage_eval.cli.output import print_json, print_table
from gage_eval.cli.places import located

if TYPE_CHECKING:
    import pyarrow as pa


@app.command()
def sql(
    query: Annotated[str | None, argument("QUERY", "One SELECT; without it, list the views.")] = None,
    run: Annotated[list[str] | None, option("RUN", "Only this run. May be repeated.")] = None,
    limit: Annotated[int, option("N", "Print at most N rows.", "--limit", "-n", min=1)] = 100,
    to: Annotated[Path | None, option("FILE", "Write all rows to a .csv, .jsonl or .parquet file.")] = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Query stored runs with SQL; nothing is changed."""
    from gage_eval.runs.results.sql import Database, columns
    from gage_eval.runs.results.tabular import records, write_table

    if query is None:
        if json:
            print_json({name: dict(types) for name, types in columns().items()})
        else:
            print_table(("view", "columns"), [(name, ", ".join(x for x, _ in of)) for name, of in columns().items()])
        return
    with Database(located(store, output_dir), run or ()) as database:
        result = database.query(query)
    if to is not None:
        write_table(result, to)
        print(to)
    elif json:
        print_json(records(result))
    else:
        right = [field.name for field in result.schema if _is_number(field.type)]
        rows = [[_cell(value) for value in row.values()] for row in records(result.slice(0, limit))]
        print_table(result.column_names, rows, right=right)
        if result.num_rows > limit:
            print(f"{result.num_rows - limit:,} more rows: --limit {result.num_rows}, or --to FILE")


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else canonical_text(value)


def _is_number(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
