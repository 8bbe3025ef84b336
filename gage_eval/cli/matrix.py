"""gage matrix: suites × models in one table."""

from pathlib import Path
from typing import Annotated

import typer

from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, OutputDir, Quiet, Store


@app.command()
def matrix(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file that names rows and models.")],
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the numbers to this file.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the table to this file.")
    ] = None,
    store: Store = None,
    output_dir: OutputDir = None,
    quiet: Quiet = False,
    json: AsJson = False,
) -> None:
    """Run suites with several models, and rank the models."""
    from dataclasses import asdict

    from gage_eval.base.errors import GageError
    from gage_eval.base.files import write_text
    from gage_eval.cli.output import print_json, print_table
    from gage_eval.engine.host import EngineHost
    from gage_eval.extend.lean import be_lean
    from gage_eval.local.launch import known_blocks, launch_run
    from gage_eval.regression.matrix import Matrix, as_csv, run_cells, standings, table
    from gage_eval.report.console import clean, counted
    from gage_eval.report.markdown import table as as_markdown
    from gage_eval.runs.options import Locations, RunOptions
    from gage_eval.runs.results.reading import RunReader

    be_lean()
    definition = Matrix.read(file)
    locations = Locations.at(store, output_dir)

    def run(options: RunOptions, host: EngineHost) -> RunReader:
        return RunReader.open(locations, launch_run(options, quiet=json or quiet, host=host).run_id)

    cells = run_cells(definition, file.parent, locations, run, blocks=known_blocks())
    ranking = standings(cells)
    header, rows = table(ranking, cells)
    if csv is not None:
        write_text(csv, as_csv(ranking))
    if markdown is not None:
        write_text(markdown, f"{as_markdown(header, rows)}\n")
    if json:
        runs = [{"row": x.row, "model": x.model, "run": x.run and x.run.run_id, "error": x.error} for x in cells]
        print_json({"name": definition.name, "cells": runs, "standings": [asdict(standing) for standing in ranking]})
    else:
        print()
        print_table(header, rows, stack=True)
        print("In brackets: the ranks that chance leaves open (paired tests, Holm).")
    failed = [cell for cell in cells if cell.error is not None]
    for cell in failed:
        typer.echo(clean(f"{cell.row} with {cell.model} failed: {cell.error}"), err=True)
    if failed:
        raise GageError(f"{counted(len(failed), 'cell')} of {len(cells)} failed; the others are in the table.")
