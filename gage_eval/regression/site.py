"""Runs as a folder of static pages for colleagues: any web server or bucket can hold it.

Every run has its report, with the comparison against the first run of its row. Of several runs, the first page is
their matrix.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from gage_eval.base.errors import InputError
from gage_eval.regression.compare import compare
from gage_eval.regression.matrix import RANKS_NOTE, Cell, lines, publication, ratings, standings
from gage_eval.regression.report_adapter import comparison
from gage_eval.report.console import counted
from gage_eval.report.details import Comparison
from gage_eval.report.html import MatrixCell, matrix_html
from gage_eval.report.model_run import model_title
from gage_eval.runs.results.export import Target, file_name
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.report_details import stored_report

HOME = "index.html"


def write_site(title: str, cells: Sequence[Cell], target: Target) -> str:
    """Write the pages.

    Args:
        title: of the first page; a single run's is its report.
        cells: the runs. One that failed is in the table only.
        target: where to write.

    Returns:
        The name of the first page.

    Raises:
        InputError: a run has not finished, or there is none.
    """
    runs = list({cell.run.run_id: cell.run for cell in cells if cell.run is not None}.values())
    if not runs:
        raise InputError("there is no run to make pages of.")
    if len(cells) == 1:
        target.write(HOME, stored_report(runs[0]).encode())
        return HOME
    compared: dict[str, Comparison] = {}
    problems: list[str] = []
    results = standings(cells, problems)
    for run, first in _against_first(cells):
        try:
            compared[run.run_id] = comparison(first.run_id, compare(first, run))
        except InputError as error:
            problems.append(str(error))
    for run in runs:
        target.write(_address(run), stored_report(run, compared.get(run.run_id), home=HOME).encode())
    document = publication(title, results, cells, ratings(cells, []))
    models, table_lines = lines(results, cells)
    rows = [
        (x.name, x.metric, x.n, [_cell(x.task_id, *cell, compared) for cell in zip_longest(x.texts, x.runs)])
        for x in table_lines
    ]
    page = matrix_html(
        title,
        models,
        rows,
        note=RANKS_NOTE,
        has_changes=bool(compared),
        problems=list(dict.fromkeys(problems)),
        figure=document.figure() if document.figure else "",
    )
    target.write("matrix.csv", document.text(".csv").encode())
    target.write(HOME, page.encode())
    return HOME


def run_cells_of(runs: Sequence[RunReader]) -> list[Cell]:
    """Stored runs as cells of a matrix: a row per suite or config, a column per model.

    Two runs of the same model in a row have a column each, named by the run.
    """
    named = [(run.summary.title, model_title(run.summary.models) or run.run_id) for run in runs]
    alike = len(set(named)) < len(named)
    return [
        Cell(row, f"{model}, {run.run_id}" if alike else model, run)
        for (row, model), run in zip(named, runs, strict=True)
    ]


def title_of(runs: Sequence[RunReader]) -> str:
    """The title of the page of stored runs."""
    suites = list(dict.fromkeys(run.summary.title for run in runs))
    return suites[0] if len(suites) == 1 else f"{counted(len(runs), 'run')} of {counted(len(suites), 'suite')}"


def _against_first(cells: Sequence[Cell]) -> list[tuple[RunReader, RunReader]]:
    """Each run with the first one of its row."""
    first: dict[str, RunReader] = {}
    runs = [(cell.run, first.setdefault(cell.row, cell.run)) for cell in cells if cell.run is not None]
    return [(run, other) for run, other in runs if run is not other]


def _cell(task_id: str, text: str, run: RunReader | None, compared: Mapping[str, Comparison]) -> MatrixCell:
    if run is None:
        return MatrixCell(text)
    changes = compared[run.run_id].tasks if run.run_id in compared else ()
    return MatrixCell(text, _address(run), next((task for task in changes if task.task_id == task_id), None))


def _address(run: RunReader) -> str:
    return f"run-{file_name(run.run_id)}.html"
