"""Markdown for pages that are not ours, such as those of the Prefect UI. All texts of runs are escaped."""

from collections.abc import Iterable, Sequence

from gage_eval.report.console import clean

_SPECIAL = "\\`*_<>|[]#"


def plain(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    text = _line(text)
    for char in _SPECIAL:
        text = text.replace(char, f"\\{char}")
    return text


def code(text: str) -> str:
    """A text as code, on one line."""
    return f"`{_line(text).replace('`', '')}`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; all cells are escaped."""
    lines = [[plain(cell) for cell in header], ["---"] * len(header), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bullets(items: Iterable[str]) -> str:
    """A list of texts, which are escaped."""
    return "\n".join(f"- {plain(item)}" for item in items)


def link(text: str, url: str | None) -> str:
    """A text that leads to an address; the text alone without one, or where Markdown could not hold it."""
    return plain(text) if url is None or not url.isascii() or set(url) & set("<>() \n") else f"[{plain(text)}]({url})"


def page(*sections: str) -> str:
    """Sections with empty lines between them; empty ones are left out."""
    return "\n\n".join(filter(None, sections)) + "\n"


def _line(text: str) -> str:
    return clean(" ".join(text.split()))
