"""The score table: on a terminal with rich, elsewhere as plain aligned lines."""

import re
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TextIO, TypeAlias

from rich.cells import cell_len

from gage_eval.report.model_run import models_line
from gage_eval.report.shares import first_names, remarks, share_text
from gage_eval.report.summary import (
    GroupScore,
    MetricSummary,
    Summary,
    TaskMetric,
    arrow_note,
    format_interval,
    format_value,
)

COLUMNS = ("task", "metric", "score", "n", "truncated", "unparsed", "error")
_LEFT = frozenset({"task", "metric", "score"})
# A column with the changes against a baseline.
_VERSUS = "vs "
# The stage bar: its whole length in characters, the least share of a stage in it, and the least time of a run with one.
_BAR_CELLS = 20
_LEAST_SHARE = 0.02
_LEAST_SECONDS = 1.0
# Metrics of a task whose slices are shown.
_SLICED = 3
# Samples that are named where judge and people differ.
_DIFFERENT = 5
_ALARMING = frozenset({"truncated", "unparsed", "error"})

_Line: TypeAlias = list[tuple[str, str]]


@dataclass(frozen=True)
class Change:
    """The change of a score against a baseline.

    Attributes:
        baseline: the baseline's name.
        task_id: the task.
        metric: the score's name.
        text: the change and what the gate says of it, such as ``−0.021 ▼  regressed (p < 0.001)``.
    """

    baseline: str
    task_id: str
    metric: str
    text: str


def size_text(count: int) -> str:
    """Bytes for people."""
    for size, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= size:
            return f"{count / size:.1f} {name}"
    return f"{count} B"


def score_text(metric: MetricSummary | GroupScore) -> str:
    """The number with its 95 % interval: ``0.861 ± 0.019``, by its ends, ``1.000 [0.44, 1.00]``, or ``0.500 ± ?``.

    Unknown is an interval of too few samples.
    """
    if metric.ends is None and metric.ci_low is not None:
        return f"{format_value(metric.value)} ± ?"
    return format_interval(metric.value, *(metric.ends or (None, None)))


class HeadlineScore(NamedTuple):
    """The headline of a task or a group.

    Attributes:
        name: of the task or group.
        metric: its name, with an arrow where lower is better.
        score: the number; a group's is micro.
    """

    name: str
    metric: str
    score: MetricSummary | GroupScore


def headlines(summary: Summary) -> list[HeadlineScore]:
    """The headlines of a run: of each group, then of each task that is in none."""
    grouped = {name for group in summary.groups if group.metrics for name in group.tasks}
    groups = [HeadlineScore(x.group_id, y.marked_name, y.micro) for x in summary.groups for y in x.metrics[:1]]
    alone = [task for task in summary.tasks if task.task_id not in grouped]
    return groups + [HeadlineScore(x.task_id, y.marked_name, y) for x in alone for y in x.metrics[:1]]


def headline(summary: Summary, most: int) -> str:
    """The headlines of a run in a line: ``exact_match 0.861 ± 0.019``. Several, by name.

    Args:
        summary: of a finished run.
        most: further ones are only counted.
    """
    scores = headlines(summary)
    named = len(scores) > 1 or len(summary.tasks) > 1
    texts = [f"{metric} {score_text(score)}" for _, metric, score in scores[:most]]
    parts = [f"{score.name} {text}" if named else text for score, text in zip(scores, texts, strict=False)]
    if len(scores) > most:
        parts.append(f"{len(scores) - most} more")
    return clean(f"{'; '.join(parts) or 'no scores'}{summary.label}")


def total_tokens(summary: Summary) -> int | None:
    """Tokens of the responses of all tasks, reused ones too; None when none were reported."""
    tokens = [task.tokens.total for task in summary.tasks if task.tokens.total is not None]
    return sum(tokens) if tokens else None


def score_rows(summary: Summary) -> list[tuple[str, ...]]:
    """The cells of the score table, one row per metric, in the order of `COLUMNS`."""
    return metric_rows(summary.metrics, summary.label)


def metric_rows(metrics: Iterable[TaskMetric], label: str = "") -> list[tuple[str, ...]]:
    """The same of some metrics, with a note next to each score."""
    return [
        (
            clean(metric.task_id),
            clean(metric.marked_name),
            f"{score_text(metric)}{label}",
            f"{metric.n:,}",
            _cut_text(metric),
            share_text(metric.unparsed, metric.all_rows),
            f"{metric.error:,}",
        )
        for metric in metrics
    ]


def _cut_text(metric: MetricSummary) -> str:
    """``4.1 %``, with answers that ended in a loop ``4.1 % + 0.8 % looped``."""
    truncated, looped = (share_text(count, metric.all_rows) for count in (metric.truncated, metric.looped))
    return truncated if looped == "0" else f"{truncated} + {looped} looped"


def group_lines(summary: Summary) -> list[str]:
    """``mmlu  acc  micro 0.612 ± 0.008 · macro 0.607 ± 0.009  14,042 samples of 57 tasks``, one line per number."""
    return [
        f"{clean(group.group_id)}  {clean(metric.marked_name)}  micro {score_text(metric.micro)}{summary.label} · "
        f"macro {score_text(metric.macro)}{summary.label}  {counted(metric.n, 'sample')} of {group.members_text}"
        for group in summary.groups
        for metric in group.metrics
    ]


def slice_lines(summary: Summary) -> list[str]:
    """``mmlu  acc  by data_tag.topic: lowest virology 0.41 ± 0.07 (n 166) · highest marketing 0.92 ± 0.03 (n 234)``.

    One line per metric and slice field that has two slices or more; of many metrics the first three, and how many more
    there are. Lowest is the slice whose interval ends lowest, and highest the one whose interval begins highest, so
    that a few lucky rows lead no list.
    """
    groups: dict[tuple[str, str, str], list[MetricSummary]] = {}
    for task in summary.tasks:
        for metric in task.slices:
            if metric.value is not None:
                groups.setdefault((task.task_id, metric.marked_name, metric.slice_field or ""), []).append(metric)
    lines: dict[tuple[str, str], list[str]] = {}
    for (task_id, name, field), slices in groups.items():
        if len(slices) > 1:
            line = f"{clean(task_id)}  {clean(name)}  by {clean(field)} ({len(slices):,} slices): {_ends_of(slices)}"
            lines.setdefault((task_id, field), []).append(line)
    return [
        line
        for (task_id, field), own in lines.items()
        for line in (*own[:_SLICED], *_further(len(own) - _SLICED, task_id, field))
    ]


def _further(count: int, task_id: str, field: str) -> list[str]:
    report = "are in the report" if count > 1 else "is in the report"
    return [f"{clean(task_id)}  {counted(count, 'more metric')} by {clean(field)} {report}"] if count > 0 else []


def _ends_of(slices: Sequence[MetricSummary]) -> str:
    def value(metric: MetricSummary) -> float:
        return metric.value or 0.0

    lowest = min(slices, key=lambda metric: value(metric) if metric.ci_high is None else metric.ci_high)
    highest = max(slices, key=lambda metric: value(metric) if metric.ci_low is None else metric.ci_low)
    if value(lowest) >= value(highest):
        lowest, highest = min(slices, key=value), max(slices, key=value)
    if value(lowest) == value(highest):
        return f"all {format_value(lowest.value)}"
    return f"lowest {_slice_text(lowest)} · highest {_slice_text(highest)}"


def _slice_text(metric: MetricSummary) -> str:
    name = "(none)" if metric.slice_value is None else metric.slice_value
    return f"{clean(name)} {score_text(metric)} (n {metric.n:,})"


def label_lines(summary: Summary) -> list[str]:
    """The judge of each task against people: the table of labels and verdicts, and on which samples they differ."""
    lines: list[str] = []
    for task in summary.tasks:
        labels = task.calibration
        if labels is None or not labels.labels:
            continue
        columns = (f"{task.task_id}: judge against people", *(f"judge {verdict:g}" for verdict in labels.verdicts))
        rows = [
            (f"people {label:g}", *("0" if cell is None else f"{cell.answers:,}" for cell in cells))
            for label, cells in labels.rows
        ]
        lines += map(_joined, _aligned(columns, rows)) if rows else []
        if names := labels.apart:
            lines.append(f"{task.task_id}: judge and people differ on {first_names(names, _DIFFERENT)}.")
    return [clean(line) for line in lines]


def artifact_rows(summary: Summary) -> list[dict[str, str]]:
    """The score table as records, for places that draw tables themselves."""
    return [dict(zip(COLUMNS, row, strict=True)) for row in score_rows(summary)]


def print_scores(
    summary: Summary, *, changes: Sequence[Change] = (), report: str | None = None, stream: TextIO | None = None
) -> None:
    """Print the score table, slices, groups, a sentence for each share above its limit, and where the report is.

    Args:
        summary: of a finished run.
        changes: of its scores; each baseline is a column of the table.
        report: place of the HTML report.
        stream: standard output by default; colours, and lines that fit, only where it is a terminal.
    """
    out = sys.stdout if stream is None else stream
    width = terminal_width(out)
    columns, rows = _with_changes(summary, changes)
    if models := models_line(summary.models):
        out.write(folded(clean(models), width) + "\n")
    if rows and width is not None:
        _print_coloured(_lines(rows, width, columns), out)
    elif rows:
        out.writelines(line + "\n" for line in plain_lines(rows, columns=columns))
    lines = (
        *_changes_outside(summary, changes),
        arrow_note(summary),
        *slice_lines(summary),
        *group_lines(summary),
        *label_lines(summary),
        *map(clean, remarks(summary)),
        stage_line(summary),
        closing_line(summary, report),
    )
    for line in filter(None, lines):
        out.write(folded(line, width) + "\n")


def _with_changes(summary: Summary, changes: Sequence[Change]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns and rows of the score table, with a column for each baseline."""
    texts = {(change.baseline, change.task_id, change.metric): change.text for change in changes}
    baselines = tuple(dict.fromkeys(change.baseline for change in changes))
    rows = [
        (*row, *(texts.get((baseline, metric.task_id, metric.name), "") for baseline in baselines))
        for row, metric in zip(score_rows(summary), summary.metrics, strict=True)
    ]
    return (*COLUMNS, *(f"{_VERSUS}{clean(baseline)}" for baseline in baselines)), rows


def _changes_outside(summary: Summary, changes: Sequence[Change]) -> list[str]:
    """The changes of numbers that are not in the table, such as the mean where the table has a median."""
    shown = {(metric.task_id, metric.name) for metric in summary.metrics}
    return [
        clean(f"{_VERSUS}{change.baseline}  {change.task_id}  {change.metric}  {change.text}")
        for change in changes
        if (change.task_id, change.metric) not in shown
    ]


def plain_lines(rows: Sequence[Sequence[str]], width: int | None = None, columns: Sequence[str] = COLUMNS) -> list[str]:
    """Heading and rows in aligned columns, two spaces apart.

    Args:
        rows: the cells, in the order of the columns.
        width: where the table is wider than that, each task becomes a heading above its metrics.
        columns: the heading; the task is the first one.
    """
    return [_joined(line) for line in _lines(rows, width, columns)]


def _lines(rows: Sequence[Sequence[str]], width: int | None, columns: Sequence[str]) -> list[_Line]:
    wide = _aligned(columns, rows)
    if width is None or max(cell_len(_joined(line)) for line in wide) <= width:
        return wide
    head, *metrics = _aligned(columns[1:], [row[1:] for row in rows])
    lines = [[("", "  "), *head]]
    task = None
    for (name, *_), cells in zip(rows, metrics, strict=True):
        if name != task:
            lines.append([("task", name)])
            task = name
        lines.append([("", "  "), *cells])
    return lines


def _aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[_Line]:
    """Each row as pairs of a column's name and the padded cell, the heading first."""
    table = [columns, *rows]
    widths = column_widths(table)
    return [
        [
            (name, ("  " if index else "") + padded(cell, widths[index], right=not _is_left(name)))
            for index, (name, cell) in enumerate(zip(columns, row, strict=True))
        ]
        for row in table
    ]


def _is_left(column: str) -> bool:
    return column in _LEFT or column.startswith(_VERSUS)


def _joined(line: _Line) -> str:
    return "".join(cell for _, cell in line).rstrip()


def closing_line(summary: Summary, report: str | None = None) -> str:
    """``report  runs/…/report.html      19 s · 1.31 M tokens · 268 reused``."""
    location = f"report  {clean(report)}      " if report else ""
    return location + " · ".join(closing_facts(summary))


def closing_facts(summary: Summary) -> list[str]:
    """How long the run took, its tokens, what it reused, and what its answers cost."""
    tokens = total_tokens(summary)
    facts = [seconds_text(summary.run.timings.wall_runtime_s)]
    if tokens:
        facts.append(f"{count_text(tokens)} tokens")
    if tokens and not summary.run.sent:
        facts.append("nothing sent")
    if summary.run.reused:
        facts.append(f"{summary.run.reused:,} reused")
    usage = summary.run.usage
    if usage.completion_tokens_per_s is not None:
        facts.append(f"{count_text(round(usage.completion_tokens_per_s))} answer tokens/s")
    if usage.cost is not None:
        facts.append(f"cost {usage.cost:.4g}")
    if usage.gpu_seconds is not None:
        facts.append(f"{count_text(round(usage.gpu_seconds))} GPU s")
    return facts


def stage_line(summary: Summary) -> str | None:
    """``time    load 1.2 s ▌ · infer 18 s ██████████████████▏ · auto_eval 0.9 s ▌``; None where nothing took long.

    Each stage that computed something and took a noticeable share of the run, with a bar of its share.
    """
    seconds = summary.run.timings.stage_seconds
    computed = {stage: value for stage, value in seconds.items() if stage not in summary.run.cached_stages}
    total = sum(computed.values())
    shown = {stage: value for stage, value in computed.items() if value >= _LEAST_SHARE * total}
    if total < _LEAST_SECONDS:
        return None
    return "time    " + " · ".join(
        f"{stage} {seconds_text(value)} {_bar(value / total)}" for stage, value in shown.items()
    )


def _bar(share: float) -> str:
    eighths = max(1, round(share * _BAR_CELLS * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def clean(text: str) -> str:
    """A name for a terminal, without control characters: they could move the cursor or hide a line."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def readable(text: str) -> str:
    """A text for a terminal, a state or a log: without control characters other than line ends and tabs.

    A Prefect server on Postgres answers 503 to a state with a null byte, as if it were busy, so that it would be asked
    again and again. Lone surrogates cannot be sent at all.
    """
    return "\n".join("\t".join(map(clean, line.split("\t"))) for line in text.split("\n"))


def terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal that a stream is, None for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def folded(text: str, width: int | None, indent: int = 0) -> str:
    """The text in lines of at most that width, broken between words; those after the first are indented."""
    if width is None or cell_len(text) <= width:
        return text
    lines = [""]
    for word in re.findall(r"\s*\S+", text):
        if lines[-1] and cell_len(lines[-1] + word) > width:
            lines.append(" " * indent + word.lstrip())
        else:
            lines[-1] += word
    return "\n".join(lines)


def column_widths(table: Iterable[Iterable[str]]) -> list[int]:
    """How wide each column of a table is on a terminal."""
    return [max(map(cell_len, column)) for column in zip(*table, strict=True)]


def aligned(cells: Sequence[str], widths: Sequence[int], right: Collection[int] = ()) -> str:
    """The cells in columns of these widths, two blanks apart; those at the places in ``right`` are aligned right."""
    columns = enumerate(zip(cells, widths, strict=True))
    return "  ".join(padded(cell, width, right=place in right) for place, (cell, width) in columns).rstrip()


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text with blanks to that many columns of a terminal, of which a Chinese letter takes two."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def one_line(text: str, limit: int) -> str:
    """A text on one line, cut after so many characters.

    >>> one_line("a\\nlonger text", 8)
    'a longe…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def counted(count: int, noun: str) -> str:
    """``1 row``, ``1,319 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _print_coloured(lines: Sequence[_Line], out: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False)
    for index, line in enumerate(lines):
        # Text, not markup: a name like [red] is a name.
        cells = [(cell, "dim" if index == 0 else _style(name, cell.strip())) for name, cell in line]
        console.print(Text.assemble(*cells), soft_wrap=True)


def _style(column: str, cell: str) -> str:
    if column == "score":
        return "bold"
    if column.startswith(_VERSUS):
        return "red" if "▼" in cell else "green" if "▲" in cell else ""
    return "" if column not in _ALARMING else "dim" if cell == "0" else "yellow"


def seconds_text(seconds: float) -> str:
    """A duration: ``8.2 s``, ``5 min 3 s``, ``2 h 10 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def count_text(count: int) -> str:
    """A large count in three digits: ``1.31 M``."""
    for size, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.2f} {name}"
    return str(count)
