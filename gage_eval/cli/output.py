"""Output of commands: aligned tables, JSON, and untrusted text without control characters.

It imports the report only where it prints, because every command imports it, and the help prints nothing.
"""

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from gage_eval.base.canonical import JsonValue, normalise

# A narrower column is not folded.
_LEAST_WIDTH = 14
# Sentences in a narrower column are hard to read.
_READABLE_WIDTH = 36


def say(text: str) -> None:
    """Print a text, which may be of data or models, without control characters."""
    from gage_eval.report.console import clean

    print(clean(text))


def as_json(value: Any) -> JsonValue:
    """The value as JSON has it: dataclasses and models as objects, times as ISO 8601."""
    from pydantic_core import to_jsonable_python

    return normalise(to_jsonable_python(value, fallback=dict))


def print_json(value: Any) -> None:
    """The value as indented JSON, see `as_json`."""
    print(json.dumps(as_json(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    stack: bool = False,
    spare: Sequence[str] = (),
) -> None:
    """Rows in aligned columns with two spaces between them. The columns in ``right`` are aligned right.

    On a terminal where a line would be too long, the last column is folded. With ``stack``, each row is printed as a
    block instead, with one line per column. Before the last column gets too narrow to read, those in ``spare`` are left
    out, the first of them first, and a last line names them.
    """
    from gage_eval.report.console import aligned, clean, column_widths, folded, terminal_width

    table = [[clean(cell) for cell in row] for row in (header, *rows)]
    right = [clean(name) for name in right]
    left_out = _leave_out(table, spare)
    widths, places = column_widths(table), [place for place, name in enumerate(table[0]) if name in right]
    indent = sum(widths[:-1]) + 2 * (len(widths) - 1)
    width = terminal_width(sys.stdout)
    if stack and width is not None and indent + widths[-1] > width:
        _print_blocks(table)
        return
    if width is not None and width - indent < _LEAST_WIDTH:
        width = None
    for row in table:
        print(folded(aligned(row, widths, places), width, indent))
    if left_out:
        print(f"not shown on a terminal of this width, but with --json: {', '.join(left_out)}")


def print_matrix(header: Sequence[str], rows: Sequence[Sequence[str]], *, first: int, cut: int) -> None:
    """A table that keeps its form on a narrow terminal: one column is cut, and those without room follow below.

    Args:
        header: names of the columns.
        rows: their cells; an empty row is an empty line.
        first: how many columns are repeated in front of those that follow below.
        cut: the column whose long texts lose their middle.
    """
    from gage_eval.report.console import aligned, clean, column_widths, terminal_width

    table = [[clean(cell) for cell in row] for row in (header, *(row or [""] * len(header) for row in rows))]
    widths = column_widths(table)
    whole = sum(widths) + 2 * (len(widths) - 1)
    width = terminal_width(sys.stdout) or whole
    if whole > width:
        widths[cut] = min(widths[cut], max(_LEAST_WIDTH, widths[cut] - (whole - width)))
        for row in table:
            row[cut] = middle_cut(row[cut], widths[cut])
    begin = first
    while begin < len(header):
        end, taken = begin, sum(widths[:first]) + 2 * (first - 1)
        while end < len(header) and (end == begin or taken + 2 + widths[end] <= width):
            taken += 2 + widths[end]
            end += 1
        if begin > first:
            print()
        for row in table:
            print(aligned(row[:first] + row[begin:end], widths[:first] + widths[begin:end]))
        begin = end


def _leave_out(table: list[list[str]], spare: Sequence[str]) -> list[str]:
    """Remove spare columns until the last one has room on the terminal. Returns their names."""
    from gage_eval.report.console import column_widths, terminal_width

    width = terminal_width(sys.stdout)
    left_out: list[str] = []
    while width is not None and len(left_out) < len(spare):
        widths = column_widths(table)
        if width - sum(widths[:-1]) - 2 * (len(widths) - 1) >= min(widths[-1], _READABLE_WIDTH):
            break
        left_out.append(spare[len(left_out)])
        place = table[0].index(left_out[-1])
        for row in table:
            del row[place]
    return left_out


def _print_blocks(table: Sequence[Sequence[str]]) -> None:
    """Each row as a block of its columns' names and values, with an empty line between the blocks."""
    from gage_eval.report.console import padded

    header, *rows = table
    wide = max(map(cell_len, header))
    for number, row in enumerate(rows):
        if number:
            print()
        for name, cell in zip(header, row, strict=True):
            print(f"{padded(name, wide)}  {cell}".rstrip())


def fitted(
    table: Sequence[Sequence[str]],
    width: int | None,
    *,
    right: Collection[str] = (),
    cut: Collection[str] = (),
    indent: int = 0,
) -> list[str]:
    """Header and rows in aligned columns; on a terminal the longest cells of some columns lose their middle.

    Args:
        table: the header, then the rows.
        width: of the terminal; None for a file.
        right: the columns that are aligned right.
        cut: the columns whose cells may be cut.
        indent: blanks before each line.
    """
    from gage_eval.report.console import aligned, column_widths

    widths = column_widths(table)
    places, flexible = ([place for place, name in enumerate(table[0]) if name in names] for names in (right, cut))
    while width is not None and flexible and sum(widths) + 2 * (len(widths) - 1) + indent > width:
        widest = max(flexible, key=lambda place: widths[place])
        if widths[widest] <= _LEAST_WIDTH:
            break
        widths[widest] -= 1
    return [" " * indent + aligned([*map(middle_cut, row, widths)], widths, places) for row in table]


def middle_cut(text: str, width: int) -> str:
    """The text in at most that many columns. Of a long one the end stays, where a score has its number.

    >>> middle_cut("gsm8k,flexible-extract 0.861 ± 0.019", 24)
    'gsm8k,f…ct 0.861 ± 0.019'
    """
    if cell_len(text) <= width:
        return text
    tail = max(width * 2 // 3, 1)
    head = width - 1 - tail
    while cell_len(text[:head] + "…" + text[-tail:]) > width:
        head, tail = max(head - 1, 0), tail - (head == 0)
    return f"{text[:head]}…{text[-tail:]}"


def shown_location(location: str) -> str:
    """A path for messages: relative if it is below the working folder."""
    with suppress(ValueError):
        return str(Path(location).relative_to(Path.cwd()))
    return location


def indented(text: str, by: str = "  ") -> str:
    """The `readable` text with each line indented."""
    from gage_eval.report.console import readable

    return "\n".join(by + line for line in readable(text).split("\n"))
