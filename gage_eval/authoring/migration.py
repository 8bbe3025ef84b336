"""What every migration of another tool's config gives: our config, rows, and a report with the line of each key."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gage_eval.base.errors import ConfigError, Problem
from gage_eval.base.files import new_folder
from gage_eval.config.interpolate import literal
from gage_eval.config.secrets import scrub
from gage_eval.config.yaml.lines import Mapping, Node, Scalar
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text
from gage_eval.runs.effects import examined
from gage_eval.runs.options import RunOptions

State: TypeAlias = Literal["mapped", "changed", "left"]
CONFIG = "config.yaml"
REPORT = "migration.md"


@dataclass(frozen=True)
class Finding:
    """What a key is in our config.

    Attributes:
        line: where it stands; 0 for the file as a whole.
        key: as written.
        state: mapped, changed in its meaning, or left out.
        text: what it became, or why it was left.
    """

    line: int
    key: str
    state: State
    text: str


@dataclass
class Migration:
    """A migrated config.

    Attributes:
        tool: that the config was for.
        config: ours.
        files: the rows of each data file that the config names.
        findings: in the order in which keys were read.
    """

    tool: str
    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def report(self) -> list[Finding]:
        """The findings in the order of the lines, each once."""
        return sorted(dict.fromkeys(self.findings), key=lambda finding: (finding.line, finding.key))

    def mapped(self, line: int, key: str, text: str) -> None:
        """Note a key whose meaning is the same here."""
        self._note(line, key, "mapped", text)

    def changed(self, line: int, key: str, text: str) -> None:
        """Note a key whose meaning differs in some way."""
        self._note(line, key, "changed", text)

    def left(self, line: int, key: str, text: str) -> None:
        """Note a key that the config has nothing for."""
        self._note(line, key, "left", text)

    def _note(self, line: int, key: str, state: State, text: str) -> None:
        # Names of providers and texts of errors may hold a password.
        self.findings.append(Finding(line, scrub(key), state, scrub(text)))


def keys_of(node: Node | None) -> Iterator[tuple[str, int, Node]]:
    """(key, line, value) of a mapping; nothing for anything else."""
    if isinstance(node, Mapping):
        for key, value in node.items.items():
            yield key, node.lines.get(key, value.line), value


def is_text(node: Node | None) -> bool:
    """Whether a node is one value, not a list or a mapping."""
    return isinstance(node, Scalar)


def report_of(migration: Migration, source: str) -> str:
    """The report as Markdown: a row for each key."""
    rows = migration.report
    counts = ", ".join(
        f"{sum(finding.state == state for finding in rows)} {state}" for state in ("mapped", "changed", "left")
    )
    lines = [f"# {_cell(source)} of {migration.tool}", "", counts, "", "| line | key | | |", "|---|---|---|---|"]
    lines += [
        f"| {finding.line or ''} | {_cell(finding.key)} | {finding.state} | {_cell(finding.text)} |" for finding in rows
    ]
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    shown = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
    return shown if len(shown) <= 200 else f"{shown[:199]}…"


def write_migration(migration: Migration, source: Path, folder: Path) -> None:
    """Write the config, its data and the report; the folder is there as a whole, or not at all.

    What our own check finds in the config is added to the report.

    Raises:
        InputError: the folder is there already or cannot be written.
    """
    text = yaml_text(node_of(literal(migration.config), CONFIG), head=f"# Made by gage migrate from {source.name!r}.\n")
    with new_folder(folder) as made:
        for name, rows in migration.files.items():
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            (made / name).write_text("".join(lines), encoding="utf-8", errors="replace")
        (made / CONFIG).write_text(text, encoding="utf-8")
        # The file is another's: nothing that it names is imported.
        try:
            problems: Sequence[Problem] = examined(RunOptions(config=str(made / CONFIG))).problems
        except ConfigError as error:
            problems = error.problems
        for problem in problems:
            migration.left(0, f"{CONFIG}: {problem.path}", problem.message)
        (made / REPORT).write_text(report_of(migration, source.name), encoding="utf-8")
