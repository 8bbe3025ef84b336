"""The files and commands of a page of the documentation."""

import re
import shlex
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "plugins"
TASKS = DOCS.parent / "tasks"

_FILE = re.compile(r"`([\w.-]+)`[^`\n]*(?:\n[^`\n]+)*:\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)


def write_files(page: str, folder: Path, docs: Path = DOCS) -> None:
    """Save the files of a page where it says so."""
    files = _FILE.findall((docs / page).read_text(encoding="utf-8"))
    assert files, f"{page} has no files"
    for name, text in files:
        (folder / name).write_text(text, encoding="utf-8")


def commands(page: str, docs: Path = DOCS) -> list[list[str]]:
    """The arguments of each ``gage`` command of a page."""
    blocks = _COMMANDS.findall((docs / page).read_text(encoding="utf-8"))
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert all(line[0] == "gage" for line in lines)
    return [line[1:] for line in lines]
