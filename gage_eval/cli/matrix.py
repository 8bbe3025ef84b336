"""gage matrix: suites × models in one table."""

from pathlib import Path
from typing import Annotated

import typer

from gage_eval.base.errors import GageError
from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, OutputDir, Quiet, Store, To, argument, option
from gage_eval.cli.output import print_json, print_matrix, print_table, say
from gage_eval.cli.places import located, open_run


@app.command()
def matrix(
    file: Annotated[Path, argument("FILE", "A YAML file that names rows and models.")],
    to: To = None,
    site: Annotated[Path | None, option("DIR", "Write static pages of the matrix to this folder.")] = None,
    store: Store = None,
    output_dir: OutputDir = None,
    quiet: Quiet = False,
    json: AsJson = False,
) -> None:
    """Run suites with several models, and rank the models."""
    from gage_eval.engine.host import SharedEngines
    from gage_eval.extend.tuning import tune_process
    from gage_eval.local.launch import known_blocks, launch_run
    from gage_eval.regression.leaderboard import RATINGS_NOTE, ratings_tables
    from gage_eval.regression.matrix import (
        RANKS_NOTE,
        Matrix,
        matrix_record,
        publication,
        ratings,
        run_cells,
        standings,
        table,
    )
    from gage_eval.regression.site import write_site
    from gage_eval.report.console import counted, readable
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.results.export import LocalTarget
    from gage_eval.runs.results.publication import check_formats
    from gage_eval.runs.results.reading import RunReader

    tune_process()
    check_formats(to or ())
    definition = Matrix.read(file)
    locations = located(store, output_dir)

    def run(options: RunOptions, host: SharedEngines) -> RunReader:
        return open_run(locations, launch_run(options, quiet=json or quiet, host=host).run_id)

    cells = run_cells(definition, file.parent, locations, run, blocks=known_blocks())
    ranking = standings(cells)
    rated = ratings(cells)
    publication(definition.name, ranking, cells, rated).write(to or ())
    if site is not None:
        write_site(definition.name, cells, LocalTarget.made(site))
    if json:
        print_json(matrix_record(definition.name, cells, ranking, rated))
    else:
        print()
        print_matrix(*table(ranking, cells, runs=True), first=3, cut=1)
        print(RANKS_NOTE)
        for title, header, rows in ratings_tables(rated):
            print()
            say(f"win rates and ratings of {title}")
            print_table(header, rows, stack=True)
        if rated:
            print(RATINGS_NOTE)
    failed = [cell for cell in cells if cell.error is not None]
    for cell in failed:
        typer.echo(readable(f"{cell.row} with {cell.model} failed: {cell.error}"), err=True)
    if failed:
        raise GageError(f"{counted(len(failed), 'cell')} of {len(cells)} failed; the others are in the table.")
