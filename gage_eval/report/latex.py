"""LaTeX tables in the booktabs style. Every text is escaped: a name can neither end a cell nor run a command."""

from collections.abc import Iterable, Sequence

from gage_eval.report.console import clean

# A bracket or a star after the end of a row would be an argument of it. Signs that a font may lack are written as
# commands.
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",
    **{char: f"\\{char}" for char in "{}$&#_%"},
    **{char: f"{{{char}}}" for char in "[]*`'-"},
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "…": r"\ldots{}",
    "·": r"$\cdot$",
    "→": r"$\rightarrow$",
    "↓": r"$\downarrow$",
    "\N{REPLACEMENT CHARACTER}": "?",
}


def escaped(text: str) -> str:
    """A text that LaTeX prints as it is, on one line."""
    return "".join(_SPECIAL.get(char, char) for char in clean(" ".join(text.split())))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str, comments: Iterable[str] = ()) -> str:
    """A floating table; all texts are escaped. The last rows after an empty one stand below a separate line.

    Args:
        header: names of the columns.
        rows: their cells.
        caption: below the table.
        comments: lines of the file that are not printed.
    """

    def line(cells: Sequence[str]) -> str:
        return f"{' & '.join(map(escaped, cells))} \\\\" if cells else "\\midrule"

    return "\n".join(
        (
            *(f"% {clean(' '.join(comment.split()))}" for comment in ("needs \\usepackage{booktabs}", *comments)),
            "\\begin{table}",
            "\\centering",
            f"\\begin{{tabular}}{{{'l' * len(header)}}}",
            "\\toprule",
            line(header),
            "\\midrule",
            *map(line, rows),
            "\\bottomrule",
            "\\end{tabular}",
            f"\\caption{{{escaped(caption)}}}",
            "\\end{table}",
            "",
        )
    )
