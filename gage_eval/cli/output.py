"""What commands print: aligned tables, JSON, and text of others made harmless."""

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rich.cells import cell_len

from gage_eval.canonical import JsonValue, normalise
from gage_eval.report.console import clean, folded, padded, terminal_width

# A column narrower than this is not worth folding.
_LEAST_WIDTH = 14


def print_json(value: JsonValue) -> None:
    """The value as indented JSON."""
    print(json.dumps(normalise(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()) -> None:
    """Rows in aligned columns, two spaces apart; the columns named in ``right`` are flush right.

    On a terminal the last column is folded below itself where a line would be too long.
    """
    table = [list(header), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(header))]
    indent = sum(widths[:-1]) + 2 * (len(widths) - 1)
    width = terminal_width(sys.stdout)
    if width is not None and width - indent < _LEAST_WIDTH:
        width = None
    for row in table:
        line = [padded(cell, wide, right=name in right) for name, cell, wide in zip(header, row, widths, strict=True)]
        print(folded("  ".join(line).rstrip(), width, indent))


def shown_location(location: str) -> str:
    """A path as one types it here: relative where it lies below the working folder."""
    with suppress(ValueError):
        return str(Path(location).relative_to(Path.cwd()))
    return location


def readable(text: str) -> str:
    """Text of several lines for a terminal: line ends and tabs stay, other control characters do not."""
    return "\n".join("\t".join(map(clean, line.split("\t"))) for line in text.split("\n"))


def indented(text: str, by: str = "  ") -> str:
    """The text made `readable`, each line moved to the right."""
    return "\n".join(by + line for line in readable(text).split("\n"))
