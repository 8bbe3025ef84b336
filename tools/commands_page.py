"""docs/commands.md, made from the command line.

python -m tools.commands_page    write the page
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from gage_eval.cli.main import COMMANDS, app
from tools.markdown import cell

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"

_HEAD = """# Reference: command line

Made from the code by `python -m tools.commands_page`; change a text there, not on this page.

Every command takes `--help`, and `--debug`, which shows tracebacks. [Exit codes](errors-and-exit-codes.md#exit-codes)
say what scripts can rely on.
"""


def page() -> str:
    """The page as it should be."""
    for name in COMMANDS:
        importlib.import_module(f"gage_eval.cli.{name}")
    lines = [line for words, command in _commands((), typer.main.get_command(app)) for line in _section(words, command)]
    return _HEAD + "\n".join(lines).replace("<", "\\<") + "\n"


def _commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name, inner in sorted(command.commands.items()):
            yield from _commands((*words, name), inner)
    else:
        yield words, command


def _section(words: tuple[str, ...], command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and "--help" not in one.opts]
    shown = " ".join(_argument(one) for one in arguments)
    yield ""
    yield f"## gage {' '.join(words)}"
    yield ""
    yield " ".join((command.help or "").split())
    yield ""
    yield f"    gage {' '.join(words)}{' [OPTIONS]' * bool(options)}{f' {shown}' if shown else ''}"
    if not arguments and not options:
        return
    yield ""
    yield "| | default | |"
    yield "|---|---|---|"
    for one in arguments:
        yield f"| `{one.metavar or one.human_readable_name}` | – | {cell(getattr(one, 'help', None) or '')} |"
    for one in options:
        names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
        value = "" if one.is_flag else f" `{cell(one.metavar or 'VALUE')}`"
        yield f"| {names}{value} | {_default(one)} | {cell(one.help or '')} |"


def _argument(one: Any) -> str:
    name = one.metavar or one.human_readable_name
    return name if one.required else f"[{name}]"


def _default(one: Any) -> str:
    return "–" if one.default in (None, False, (), []) or callable(one.default) else f"`{one.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
