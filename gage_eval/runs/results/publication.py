"""Results for a paper or a meeting: a table as Markdown, LaTeX and CSV, and a figure as SVG and PNG."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.base.files import write_text
from gage_eval.extend.extras import missing
from gage_eval.report import latex, markdown
from gage_eval.report.console import COLUMNS, score_rows
from gage_eval.report.figures import Mark, interval_figure
from gage_eval.report.summary import Summary
from gage_eval.runs.results.tabular import csv_records

TABLES, FIGURES = (".md", ".tex", ".csv"), (".svg", ".png")
# A figure in a paper or on a slide is printed at twice the size of a screen's.
_ZOOM = 2.0


@dataclass(frozen=True)
class Publication:
    """A table and a figure of the same numbers.

    Attributes:
        title: what they show.
        header, rows: the table as people read it; an empty row is a line.
        records: the numbers, unrounded, for CSV.
        figure: makes the figure; None where there is none.
        notes: what else a reader must know, such as which runs these are.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    records: Sequence[Mapping[str, Any]]
    figure: Callable[[], str] | None = None
    notes: Sequence[str] = ()

    def write(self, files: Sequence[Path]) -> None:
        """Write it to files, each in the format that its name says.

        Raises:
            InputError: a format is unknown, there is no number to draw, or a file cannot be written.
        """
        check_formats(files)
        for file in files:
            if file.suffix == ".png":
                _write_png(file, self._svg())
            else:
                write_text(file, self.text(file.suffix))

    def text(self, suffix: str) -> str:
        """The content of a file that is text.

        Raises:
            InputError: there is no number to draw.
        """
        if suffix == ".svg":
            return self._svg()
        if suffix == ".csv":
            names = list(dict.fromkeys(name for record in self.records for name in record))
            return b"".join(csv_records(self.records, names)).decode()
        if suffix == ".tex":
            return latex.table(self.header, self.rows, self.title, self.notes)
        table = markdown.table(self.header, filter(None, self.rows))
        return markdown.page(f"**{markdown.plain(self.title)}**", table, markdown.bullets(self.notes))

    def _svg(self) -> str:
        if self.figure is None:
            raise InputError(f"{self.title}: there is no figure of this. Name a run: gage show RUN --to FILE.svg")
        svg = self.figure()
        if not svg:
            raise InputError(f"{self.title}: there is no number to draw.")
        return svg


def check_formats(files: Sequence[Path]) -> None:
    """Refuse a file whose format is unknown, or needs a package that is not installed, before any work.

    Raises:
        InputError: the reason.
    """
    for file in files:
        if file.suffix not in TABLES + FIGURES:
            raise InputError(f"'{file}': the format is unknown. End the name with {', '.join(TABLES + FIGURES)}.")
        if file.suffix == ".png":
            _resvg()


def of_run(summary: Summary) -> Publication:
    """The scores of a finished run."""
    several = len(summary.tasks) > 1
    panels: dict[str, list[Mark]] = {}
    for task in summary.tasks:
        for metric in task.metrics[:1] if several else task.metrics:
            name = metric.marked_name
            panels.setdefault(name if several else task.task_id, []).append(
                Mark.of(task.task_id if several else name, metric)
            )
    for group in summary.groups:
        for number in group.metrics[:1]:
            panels.setdefault(number.marked_name, []).append(Mark.of(f"{group.group_id}, micro", number.micro))
    title = f"{summary.title}, run {summary.run.run_id}"
    records = [
        {
            "run": summary.run.run_id,
            "task": metric.task_id,
            "metric": metric.name,
            "value": metric.value,
            **metric.model_dump(
                include={"stderr", "ci_low", "ci_high", "n", "truncated", "looped", "unparsed", "error"}
            ),
        }
        for metric in summary.metrics
    ]
    return Publication(
        title, COLUMNS, score_rows(summary), records, lambda: interval_figure(title, list(panels.items()))
    )


def of_list(title: str, records: Sequence[Mapping[str, Any]], figure: Callable[[], str] | None = None) -> Publication:
    """A list of records, such as the runs: their fields are the columns."""
    header = list(records[0]) if records else []
    rows = [[_cell(record[name]) for name in header] for record in records]
    return Publication(title, header, rows, records, figure)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)


def _write_png(file: Path, svg: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_resvg().svg_to_bytes(svg_string=svg, zoom=_ZOOM))
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error.strerror or error}.") from error


def _resvg() -> Any:
    try:
        import resvg_py
    except ImportError as error:
        raise missing("a figure as PNG", "resvg-py", "figures") from error
    return resvg_py
