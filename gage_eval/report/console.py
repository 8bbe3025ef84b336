"""The score table: on a terminal with rich, elsewhere as plain aligned lines."""

import sys
from collections.abc import Sequence
from typing import TextIO

from gage_eval.report.shares import remarks, share_text
from gage_eval.report.summary import GroupScore, MetricSummary, Summary, TaskMetric, format_value

COLUMNS = ("task", "metric", "score", "n", "truncated", "unparsed", "error")
_LEFT = frozenset({"task", "metric", "score"})


def score_text(metric: MetricSummary | GroupScore) -> str:
    """The number with half of its 95 % interval: ``0.861 ± 0.019``.

    Intervals of quantiles and of corpus numbers are not symmetric; the half is that of their width.
    """
    text = format_value(metric.value)
    if metric.value is None or metric.ci_low is None or metric.ci_high is None:
        return text
    return f"{text} ± {format_value((metric.ci_high - metric.ci_low) / 2, like=metric.value)}"


def score_rows(summary: Summary) -> list[tuple[str, ...]]:
    """The cells of the score table, a row a metric, in the order of `COLUMNS`."""
    return [
        (
            clean(metric.task_id),
            clean(metric.name),
            score_text(metric),
            f"{metric.n:,}",
            share_text(metric.truncated, metric.rows),
            share_text(metric.unparsed, metric.rows),
            f"{metric.error:,}",
        )
        for metric in summary.metrics
    ]


def group_lines(summary: Summary) -> list[str]:
    """``mmlu  acc  micro 0.612 ± 0.008 · macro 0.607 ± 0.009  14,042 samples of 57 tasks``, a line a number."""
    return [
        f"{clean(group.group_id)}  {clean(metric.name)}  micro {score_text(metric.micro)} · "
        f"macro {score_text(metric.macro)}  {metric.samples:,} samples of {len(group.tasks)} tasks"
        for group in summary.groups
        for metric in group.metrics
    ]


def artifact_rows(summary: Summary) -> list[dict[str, str]]:
    """The score table as records, for places that draw tables themselves."""
    return [dict(zip(COLUMNS, row, strict=True)) for row in score_rows(summary)]


def print_scores(summary: Summary, *, report: str | None = None, stream: TextIO | None = None) -> None:
    """Print the score table, the groups, a sentence for each share above its limit, and where the report is.

    Args:
        summary: of a finished run.
        report: place of the HTML report.
        stream: standard output by default; colours and rules only where it is a terminal.
    """
    out = sys.stdout if stream is None else stream
    rows = score_rows(summary)
    if rows and out.isatty():
        _print_rich(summary, rows, out)
    elif rows:
        out.writelines(line + "\n" for line in plain_lines(rows))
    lines = [*group_lines(summary), *map(clean, remarks(summary)), closing_line(summary, report)]
    out.writelines(line + "\n" for line in lines)


def plain_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Heading and rows in aligned columns, two spaces apart."""
    table = [COLUMNS, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(width) if name in _LEFT else cell.rjust(width)
            for name, cell, width in zip(COLUMNS, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def closing_line(summary: Summary, report: str | None = None) -> str:
    """``report  runs/…/report.html      19 s · 1.31 M tokens · 268 reused``."""
    tokens = [task.tokens.total for task in summary.tasks if task.tokens.total is not None]
    facts = [_seconds(summary.run.timings.wall_runtime_s)]
    if tokens:
        facts.append(f"{_large(sum(tokens))} tokens")
    if summary.run.reused:
        facts.append(f"{summary.run.reused:,} reused")
    place = f"report  {clean(report)}      " if report else ""
    return place + " · ".join(facts)


def clean(text: str) -> str:
    """A name for a terminal, without control characters: they could move the cursor or hide a line."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _print_rich(summary: Summary, rows: Sequence[Sequence[str]], out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in _LEFT else "right", overflow="fold")
    for row, metric in zip(rows, summary.metrics, strict=True):
        # Text, not markup: a name like [red] is a name.
        table.add_row(*(Text(cell, style=_style(name, metric)) for name, cell in zip(COLUMNS, row, strict=True)))
    Console(file=out, highlight=False, soft_wrap=False).print(table)


def _style(column: str, metric: TaskMetric) -> str:
    if column == "score":
        return "bold"
    alarming = {"truncated": metric.truncated, "unparsed": metric.unparsed, "error": metric.error}
    return "" if column not in alarming else "yellow" if alarming[column] else "dim"


def _seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _large(count: int) -> str:
    for size, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.2f} {name}"
    return str(count)
